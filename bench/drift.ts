import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type TrackOptions, trackFiles } from '../src/drift/drift.ts'
import { systemClock } from '../src/protocol/clock.ts'
import { openProject } from '../src/psg/psg.ts'
import type { Backend } from '../src/vsl/backend.ts'
import { memoryBackend } from '../src/vsl/memory.ts'
import { sqliteBackend } from '../src/vsl/sqlite.ts'

// How long it takes to see what has changed among 50,000 files, what that costs in memory, and to settle a thousand changes.
// Each row is a process of its own, so that its memory is its own. Times are in seconds of the wall, `cpu` in seconds of this process.
// npx tsx bench/drift.ts [files]

const [mode = '50000', folder = '', count = ''] = process.argv.slice(2)
const CHANGED = 1_000
const EDITS = 20

type Row = { readonly [column: string]: number | string }

const MODES: { readonly [mode: string]: (root: string) => Promise<Row> } = {
  /** Walk, read and digest everything; the store only has to remember. */
  'first scan': (root) => scanned(root, memoryBackend()),
  'first scan, content kept on SQLite': async (root) =>
    scanned(root, await sqliteBackend({ path: join(root, '.mplp', 'first.db') })),
  async 'with the watcher'(root) {
    const told = listener()
    const opening = clocked()
    const tracker = await trackFiles(await graphIn(memoryBackend()), { root, watch: true, onFindings: told.hear })
    const opened = opening()
    const delays: number[] = []
    for (let i = 0; i < EDITS; i++) {
      const hearing = told.next()
      const path = fileAt(root, i * 97)
      writeFileSync(path, `${readFileSync(path, 'utf8')}edited\n`)
      const since = performance.now()
      await hearing
      delays.push(performance.now() - since)
    }
    delays.sort((a, b) => a - b)
    const row = {
      ...opened,
      'median ms to report': Math.round(delays[EDITS / 2]!),
      'slowest ms': Math.round(delays.at(-1)!),
      ...memory(),
    }
    await tracker.close()
    return row
  },
  [`${CHANGED} changes accepted on SQLite`]: (root) => settled(root, 'files'),
  [`${CHANGED} changes restored on SQLite`]: (root) => settled(root, 'graph'),
}

if (mode in MODES) console.log(JSON.stringify(await MODES[mode]!(folder)))
else main(Number(mode))

function main(files: number): void {
  const root = mkdtempSync(join(tmpdir(), 'mplp-drift-'))
  try {
    for (let i = 0; i < files; i++) {
      if (i % 50 === 0) mkdirSync(join(fileAt(root, i), '..'), { recursive: true })
      writeFileSync(fileAt(root, i), text(i, 'as it was'))
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000) // what was written a moment ago is read again by every scan
    const rows = Object.keys(MODES).map((name) => [name, ownProcess(name, root, files)] as const)
    console.log(`Node ${process.version}, ${process.arch}; ${files} files of ${text(0, 'as it was').length} bytes`)
    console.table(Object.fromEntries(rows))
  } finally {
    rmSync(root, { recursive: true })
  }
}

function ownProcess(name: string, root: string, files: number): Row {
  const script = fileURLToPath(import.meta.url)
  const { stdout, stderr, status } = spawnSync(process.execPath, ['--import', 'tsx', script, name, root, String(files)])
  if (status !== 0) throw new Error(`${name}: ${stderr}`)
  return JSON.parse(stdout.toString().trim().split('\n').at(-1)!)
}

async function scanned(root: string, store: Backend): Promise<Row> {
  const first = clocked()
  const tracker = await trackFiles(await graphIn(store), { root })
  const took = first()
  const warm = clocked()
  await tracker.scan()
  const again = warm()
  await tracker.close()
  await store.close()
  return { ...took, 'warm s': again.s, 'warm cpu': again.cpu, ...memory() }
}

/** A thousand files of the folder change; they are noticed, and settled by a rule. */
async function settled(root: string, strategy: 'files' | 'graph'): Promise<Row> {
  const store = await sqliteBackend({ path: join(root, '.mplp', `${strategy}.db`) })
  const options: TrackOptions = { root, include: ['d1*/**'], rules: [{ match: '**', strategy: 'ask' }] }
  const tracker = await trackFiles(await graphIn(store), options)
  const paths = Array.from({ length: Number(count) }, (_, i) => i)
    .filter((i) => fileAt('', i).startsWith('/d1'))
    .slice(0, CHANGED)
  for (const i of paths) writeFileSync(fileAt(root, i), text(i, `changed for ${strategy}`))
  const noticing = clocked()
  await tracker.scan()
  const noticed = noticing()
  const settling = clocked()
  const results = await tracker.reconcile('all', strategy)
  const took = settling()
  const wrong = results.filter(({ outcome }) => outcome !== (strategy === 'files' ? 'accepted' : 'restored'))
  if (results.length !== CHANGED || wrong.length > 0)
    throw new Error(`${results.length} results, ${wrong.length} wrong`)
  await tracker.close()
  await store.close()
  return { ...took, 'to notice s': noticed.s, ...memory() }
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

function clocked(): () => { readonly s: number; readonly cpu: number } {
  const [since, used] = [performance.now(), process.cpuUsage()]
  return () => {
    const { user, system } = process.cpuUsage(used)
    return { s: rounded((performance.now() - since) / 1000), cpu: rounded((user + system) / 1e6) }
  }
}
function rounded(value: number): number {
  return Math.round(value * 100) / 100
}
function memory(): Row {
  return { 'peak MB': Math.round(process.resourceUsage().maxRSS / 1024) }
}

function fileAt(root: string, i: number): string {
  return join(root, `/d${Math.floor(i / 50) % 40}`, `e${Math.floor(i / 50)}`, `file${i % 50}.ts`)
}
function text(i: number, what: string): string {
  const line = (at: number) => `export const value${at} = ${i} // ${at === 20 ? what : 'a line'}\n`
  return Array.from({ length: 40 }, (_, at) => line(at)).join('')
}
