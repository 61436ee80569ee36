import type { Dirent } from 'node:fs'
import { lstat, readdir, readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { isValid, problems } from '../protocol/validate.ts'
import { DOCUMENT_KINDS, type DocumentKind } from '../psg/document.ts'
import { sha256 } from './pack.ts'

export interface PackFinding {
  readonly rule: string
  readonly path: string
  readonly message: string
}
export interface PackVerdict {
  readonly outcome: 'ADMISSIBLE' | 'NOT_ADMISSIBLE'
  readonly findings: readonly PackFinding[]
  /** Five presence checks of the published contract. */
  readonly guarantees: { readonly [id: string]: boolean }
}

const MOST_FILES = 1_000
const MOST_BYTES = 50 * 1024 * 1024
const EXTENSIONS: ReadonlySet<string> = new Set(['.json', '.ndjson', '.yaml', '.yml', '.txt', '.sha256'])

/** Checks a pack, ours or anybody's, by the published admission rules. Survives any folder and reads nothing outside of it. */
export async function verifyPack(folder: string): Promise<PackVerdict> {
  const findings: PackFinding[] = []
  const found = (rule: string, path: string, message: string) => void findings.push({ rule, path, message })
  const root = (await isFolder(join(folder, 'pack'))) ? join(folder, 'pack') : folder
  const files = await readAll(root, found)
  checkManifest(files, found)
  checkIntegrity(files, found)
  const events = checkTimeline(files, found)
  checkArtifacts(files, found)
  const has = (path: string) => files.has(path)
  return {
    outcome: findings.length === 0 ? 'ADMISSIBLE' : 'NOT_ADMISSIBLE',
    findings,
    guarantees: {
      'LG-01': has('artifacts/context.json') && has('artifacts/plan.json') && has('artifacts/trace.json'),
      'LG-02': events > 0,
      'LG-03': has('artifacts/confirm.json'),
      'LG-04': has('manifest.json'),
      'LG-05': has('integrity/sha256sums.txt'),
    },
  }
}

type Files = ReadonlyMap<string, Buffer>
type Found = (rule: string, path: string, message: string) => void

const isFolder = async (path: string): Promise<boolean> =>
  lstat(path).then(
    (stat) => stat.isDirectory(),
    () => false,
  )

/** Plain files only, within the limits; a link is a finding and is not followed. */
async function readAll(root: string, found: Found): Promise<Files> {
  const files = new Map<string, Buffer>()
  let bytes = 0
  const folders = ['']
  for (let i = 0; i < folders.length; i++) {
    const at = folders[i]!
    const entries: Dirent[] = await readdir(join(root, at), { withFileTypes: true }).catch((error: Error) => {
      found('layout.readable', at || '.', `cannot be read: ${error.message}`)
      return []
    })
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = at === '' ? entry.name : `${at}/${entry.name}`
      if (entry.isDirectory()) {
        folders.push(path)
        continue
      }
      if (!entry.isFile()) {
        found('layout.plain', path, 'is neither a file nor a folder')
        continue
      }
      if (path.includes('\\') || path.includes('..'))
        found('layout.name', path, 'has a name that could lead out of the pack')
      if (!EXTENSIONS.has(extname(path))) found('layout.extension', path, 'has an extension that packs do not have')
      if (files.size >= MOST_FILES) {
        found('layout.files', '.', `holds more than ${MOST_FILES} files`)
        return files
      }
      const { size } = await lstat(join(root, path))
      bytes += size
      if (bytes > MOST_BYTES) {
        found('layout.size', '.', `holds more than ${MOST_BYTES} bytes`)
        return files
      }
      files.set(path, await readFile(join(root, path)))
    }
  }
  return files
}

function checkManifest(files: Files, found: Found): void {
  const manifest = json(files, 'manifest.json', found)
  if (!isObject(manifest)) return
  for (const field of ['pack_version', 'pack_id', 'created_at', 'scenario_id'])
    if (typeof manifest[field] !== 'string' || manifest[field] === '')
      found('manifest.field', `manifest.json:${field}`, 'is missing')
  if (manifest.protocol_version !== '1.0.0')
    found('manifest.protocol', 'manifest.json:protocol_version', 'must be 1.0.0')
  if (manifest.pack_version !== undefined && manifest.pack_version !== '1.0')
    found('manifest.version', 'manifest.json:pack_version', 'must be 1.0')
  const included = Array.isArray(manifest.artifacts_included) ? manifest.artifacts_included : []
  if (!Array.isArray(manifest.artifacts_included))
    found('manifest.field', 'manifest.json:artifacts_included', 'must be a list')
  for (const name of included)
    if (typeof name !== 'string' || !files.has(`artifacts/${name}`))
      found('manifest.artifact', `manifest.json:artifacts_included`, `names ${String(name)}, which is not there`)
}

function checkIntegrity(files: Files, found: Found): void {
  const sums = files.get('integrity/sha256sums.txt')
  if (!sums) return found('integrity.sums', 'integrity/sha256sums.txt', 'is missing')
  const listed = new Map<string, string>()
  for (const line of sums
    .toString('utf8')
    .split(/\r?\n/)
    .filter((text) => text !== '')) {
    const match = /^([0-9a-f]{64}) {2}(.+)$/.exec(line)
    if (!match)
      found('integrity.line', 'integrity/sha256sums.txt', `has a line that is not a checksum: ${line.slice(0, 80)}`)
    else listed.set(match[2]!, match[1]!)
  }
  for (const [path, bytes] of files) {
    if (path.startsWith('integrity/')) continue
    const sum = listed.get(path)
    if (sum === undefined) found('integrity.extra', path, 'has no checksum')
    else if (sum !== sha256(bytes)) found('integrity.sum', path, 'is not what its checksum says')
  }
  for (const path of listed.keys())
    if (!files.has(path)) found('integrity.missing', path, 'has a checksum but is not there')
  const root = files.get('integrity/pack.sha256')?.toString('utf8').trim().split(/\s+/)[0]
  const expected = sha256(
    [...listed]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([path, sum]) => `${sum}  ${path}`)
      .join('\n'),
  )
  if (root === undefined) found('integrity.root', 'integrity/pack.sha256', 'is missing')
  else if (root !== expected) found('integrity.root', 'integrity/pack.sha256', 'is not the hash of the checksums')
}

function checkTimeline(files: Files, found: Found): number {
  const path = 'timeline/events.ndjson'
  const text = files.get(path)?.toString('utf8')
  if (text === undefined) {
    found('timeline.missing', path, 'is missing')
    return 0
  }
  let [last, count] = ['', 0]
  for (const [i, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue
    count++
    const event = parsed(line)
    if (!isObject(event)) {
      found('timeline.json', `${path}:${i + 1}`, 'is not a JSON object')
      continue
    }
    const kind = FAMILIES[String(event.event_family)] ?? 'event-core'
    if (!isValid(kind, event))
      found(
        'timeline.event',
        `${path}:${i + 1}`,
        problems(kind, event)
          .map((problem) => `${problem.path} ${problem.message}`)
          .join('; '),
      )
    const place = `${String(event.timestamp)} ${String(event.event_id)}`
    if (place <= last) found('timeline.order', `${path}:${i + 1}`, 'does not come after the line before it')
    last = place
  }
  if (count === 0) found('timeline.empty', path, 'holds no event')
  return count
}
const FAMILIES: {
  readonly [family: string]: 'pipeline-stage-event' | 'graph-update-event' | 'runtime-execution-event'
} = {
  pipeline_stage: 'pipeline-stage-event',
  graph_update: 'graph-update-event',
  runtime_execution: 'runtime-execution-event',
}

function checkArtifacts(files: Files, found: Found): void {
  const documents: { [kind: string]: JsonObject[] } = {}
  for (const path of files.keys()) {
    const name = /^artifacts\/([a-z]+)(?:-\d+)?\.json$/.exec(path)?.[1]
    if (!name || !(DOCUMENT_KINDS as readonly string[]).includes(name)) continue
    const document = json(files, path, found)
    if (document === undefined) continue
    const kind = name as DocumentKind
    if (!isValid(kind, document))
      found(
        'artifact.valid',
        path,
        problems(kind, document)
          .map((problem) => `${problem.path} ${problem.message}`)
          .join('; '),
      )
    else {
      documents[kind] ??= []
      documents[kind].push(document as JsonObject)
    }
  }
  for (const kind of ['context', 'plan', 'trace'])
    if (!files.has(`artifacts/${kind}.json`)) found('artifact.missing', `artifacts/${kind}.json`, 'is missing')
  const ids = (kind: string) => new Set((documents[kind] ?? []).map((document) => document[`${kind}_id`]))
  const resolves = (kind: string, field: string, to: ReadonlySet<unknown>) => {
    for (const document of documents[kind] ?? [])
      if (document[field] !== undefined && !to.has(document[field]))
        found(
          'artifact.reference',
          `artifacts/${kind}.json:${field}`,
          `refers to ${String(document[field])}, which is not in the pack`,
        )
  }
  resolves('plan', 'context_id', ids('context'))
  resolves('trace', 'context_id', ids('context'))
  resolves('trace', 'plan_id', ids('plan'))
  const targets = { context: ids('context'), plan: ids('plan'), trace: ids('trace'), extension: ids('extension') }
  for (const confirm of documents.confirm ?? []) {
    const known = targets[confirm.target_type as keyof typeof targets]
    if (known && !known.has(confirm.target_id))
      found(
        'artifact.reference',
        'artifacts/confirm.json:target_id',
        `refers to ${String(confirm.target_id)}, which is not in the pack`,
      )
  }
  for (const trace of documents.trace ?? [])
    if (!Array.isArray(trace.events) || trace.events.length === 0)
      found('artifact.trace', 'artifacts/trace.json:events', 'must not be empty')
  for (const context of documents.context ?? [])
    if (context.status !== 'active') found('artifact.context', 'artifacts/context.json:status', 'must be active')
}

function json(files: Files, path: string, found: Found): Json | undefined {
  const bytes = files.get(path)
  if (!bytes) {
    found('layout.missing', path, 'is missing')
    return undefined
  }
  const value = parsed(bytes.toString('utf8'))
  if (value === undefined) found('layout.json', path, 'is not JSON')
  return value
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json
  } catch {
    return undefined // the caller says which file, and that it is not JSON
  }
}
