import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TrackOptions, trackFiles } from '../src/drift/drift.ts'
import { systemClock } from '../src/protocol/clock.ts'
import { openProject } from '../src/psg/psg.ts'
import type { Backend } from '../src/vsl/backend.ts'
import { memoryBackend } from '../src/vsl/memory.ts'
import { sqliteBackend } from '../src/vsl/sqlite.ts'
import { build, built } from './contest/build.ts'
import { beside, judged, noRounds, timed } from './goals.ts'
import { median, type Table, tell } from './report.ts'

// How long it takes to see what has changed among 50,000 files, what that costs in memory, and to settle a thousand changes.
// Each part is a process of its own, bare Node and what was compiled, so that its memory is its own and as users would see it.
// npx tsx bench/drift.ts [files]

type Rows = Table['rows']

const [mode = '50000', folder = '', count = ''] = process.argv.slice(2)
const CHANGED = 1_000
const EDITS = 20
const SECONDS = { unit: 's' } as const
const seconds = (ms: number) => ms / 1000

/** The store's own memory counts where the content lies in it, so the goals for memory are held against SQLite. */
const PARTS: { readonly [part: string]: (root: string) => Promise<Rows> } = {
  memory: (root) => scanned(root, memoryBackend(), 'in memory', {}),
  sqlite: async (root) =>
    scanned(root, await sqliteBackend({ path: join(root, '.mplp', 'first.db') }), 'on SQLite', { most: 300 }),
  watching,
  accepting: (root) => settled(root, 'files', 'accepted'),
  restoring: (root) => settled(root, 'graph', 'restored'),
}

if (mode in PARTS) console.log(JSON.stringify(await PARTS[mode]!(folder)))
else await main(Number(mode))

async function main(files: number): Promise<void> {
  await build()
  const root = mkdtempSync(join(tmpdir(), 'mplp-drift-'))
  try {
    for (let i = 0; i < files; i++) {
      if (i % 50 === 0) mkdirSync(join(fileAt(root, i), '..'), { recursive: true })
      writeFileSync(fileAt(root, i), text(i, 'as it was'))
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000) // what was written a moment ago is read again by every scan
    const rows: Rows = Object.assign({}, ...Object.keys(PARTS).map((part) => ownProcess(part, root, files)))
    const size = text(0, 'as it was').length
    tell('Drift', rows, `${files.toLocaleString('en')} files of ${size} bytes; wall time, and CPU time beside it`)
  } finally {
    rmSync(root, { recursive: true })
  }
}

function ownProcess(part: string, root: string, files: number): Rows {
  const { stdout, stderr, status } = spawnSync(process.execPath, [built('bench/drift.ts'), part, root, String(files)])
  if (status !== 0) throw new Error(`${part}: ${stderr}`)
  return JSON.parse(stdout.toString().trim().split('\n').at(-1)!)
}

/** Walk, read and digest everything; then once more, when nothing has changed. */
async function scanned(root: string, store: Backend, where: string, memory: { readonly most?: number }): Promise<Rows> {
  const [first, warm] = [noRounds(), noRounds()]
  const graph = await graphIn(store)
  let tracker: Awaited<ReturnType<typeof trackFiles>>
  await timed(first, async () => {
    tracker = await trackFiles(graph, { root })
  })
  for (let round = 0; round < 5; round++) await timed(warm, () => tracker.scan())
  await tracker!.close()
  await store.close()
  return {
    [`first scan, content kept ${where}`]: beside({ ...SECONDS, most: 6 }, first, seconds),
    [`warm scan, nothing changed, ${where}`]: beside({ ...SECONDS, most: 1.5 }, warm, seconds),
    [`memory of the scan, ${where}`]: judged({ unit: 'MB', ...memory }, peakMb()),
  }
}

/** From the last byte of a write until somebody has been told. */
async function watching(root: string): Promise<Rows> {
  const told = listener()
  const store = await sqliteBackend({ path: join(root, '.mplp', 'watched.db') })
  const tracker = await trackFiles(await graphIn(store), { root, watch: true, onFindings: told.hear })
  const delays: number[] = []
  for (let i = 0; i < EDITS; i++) {
    const hearing = told.next()
    const path = fileAt(root, i * 97)
    writeFileSync(path, `${readFileSync(path, 'utf8')}edited\n`)
    const since = performance.now()
    await hearing
    delays.push(performance.now() - since)
  }
  const rows = {
    'a change is reported after its settled write': judged({ unit: 'ms', most: 300 }, median(delays)),
    [`the slowest of ${EDITS}`]: judged({ unit: 'ms' }, Math.max(...delays)),
    'memory with the watcher, on SQLite': judged({ unit: 'MB', most: 550 }, peakMb()),
  }
  await tracker.close()
  await store.close()
  return rows
}

/** A thousand files of the folder change; they are noticed, and settled by hand. */
async function settled(root: string, strategy: 'files' | 'graph', outcome: 'accepted' | 'restored'): Promise<Rows> {
  const store = await sqliteBackend({ path: join(root, '.mplp', `${strategy}.db`) })
  const options: TrackOptions = { root, include: ['d1*/**'], rules: [{ match: '**', strategy: 'ask' }] }
  const tracker = await trackFiles(await graphIn(store), options)
  const paths = Array.from({ length: Number(count) }, (_, i) => i)
    .filter((i) => fileAt('', i).startsWith('/d1'))
    .slice(0, CHANGED)
  for (const i of paths) writeFileSync(fileAt(root, i), text(i, `changed for ${strategy}`))
  const [noticing, settling] = [noRounds(), noRounds()]
  await timed(noticing, () => tracker.scan())
  await timed(settling, async () => {
    const results = await tracker.reconcile('all', strategy)
    const wrong = results.filter((result) => result.outcome !== outcome).length
    if (results.length !== CHANGED || wrong > 0) throw new Error(`${results.length} results, ${wrong} wrong`)
  })
  await tracker.close()
  await store.close()
  const changes = CHANGED.toLocaleString('en')
  return {
    [`${changes} changes noticed, shown and asked about, then ${outcome}`]: beside(SECONDS, noticing, seconds),
    [`${changes} changed files reconciled (${outcome}) on SQLite`]: beside({ ...SECONDS, most: 3 }, settling, seconds),
  }
}

async function graphIn(store: Backend) {
  const project = await openProject(store)
  const meta = { protocol_version: '1.0.0', schema_version: '1.0.0' } as const
  const root = { domain: 'bench', environment: 'local' }
  const context = { meta, context_id: systemClock.uuid(), root, title: 'Files', status: 'active' }
  return project.create(context, { actor: 'bench', reason: 'to be measured' })
}

function listener() {
  let heard: () => void = () => undefined
  return {
    hear: () => heard(),
    next: () =>
      new Promise<void>((resolve) => {
        heard = resolve
      }),
  }
}

function peakMb(): number {
  return process.resourceUsage().maxRSS / 1024
}

function fileAt(root: string, i: number): string {
  return join(root, `/d${Math.floor(i / 50) % 40}`, `e${Math.floor(i / 50)}`, `file${i % 50}.ts`)
}
function text(i: number, what: string): string {
  const line = (at: number) => `export const value${at} = ${i} // ${at === 20 ? what : 'a line'}\n`
  return Array.from({ length: 40 }, (_, at) => line(at)).join('')
}
