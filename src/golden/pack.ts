import { hash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isoNow } from '../protocol/clock.ts'
import { NotFound, Refused, TooLarge } from '../protocol/errors.ts'
import { canonical, digestOf, type Json, type JsonObject } from '../protocol/json.ts'
import { makeFolder } from '../protocol/make-folder.ts'
import { VERSION } from '../protocol/version.ts'
import type { BornEvent } from '../psg/change.ts'
import { DOCUMENT_KINDS, type DocumentKind } from '../psg/document.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { INDEX, idIn, type Whereabouts } from '../psg/indexes.ts'
import { ofKind } from '../psg/node.ts'
import { type Project, upToDate } from '../psg/project.ts'
import { eachSince } from '../psg/since.ts'
import { snapshotsOf } from '../psg/snapshot.ts'
import { eventsIn } from '../psg/told.ts'
import { checkExport } from './check-options.ts'
import { checkFolder, INTEGRITY, isThere, MOST_BYTES, MOST_FILES, POINTERS, TIMELINE } from './pack-files.ts'
import { pointersOf } from './pointers.ts'

export interface PackOptions {
  /** What the run was for; the plan's id when absent. */
  readonly scenario?: string
}

/** What was written. */
export interface Pack {
  readonly folder: string
  readonly files: readonly string[]
  readonly events: number
  /** By which the pack is known: whoever gets both by different ways sees with `verifyPack` whether they belong together. */
  readonly root: string
}

/**
 * Writes a run's evidence in the published layout: `pack/` with manifest, artifacts, timeline and checksums, and beside it the pointers to the
 * decisions. `run` is the id of a plan or trace, or of the run. The timeline has the events of its plan and, up to its end, those of the context that
 * are no plan's, as they were told. Refused where something lies already.
 */
export async function exportPack(
  project: Project,
  run: string,
  folder: string,
  options: PackOptions = {},
): Promise<Pack> {
  checkFolder(folder)
  checkExport(project, options)
  const { graph, id, plan, trace } = await located(project, run)
  await refuseOccupied(folder)
  const files = new Map<string, string>()
  const artifacts = await artifactsOf(graph, project, { id, plan, trace })
  for (const [name, document] of artifacts)
    files.set(`artifacts/${name}`, `${JSON.stringify(document, undefined, 2)}\n`)
  const events = await timelineOf(graph, plan)
  files.set(TIMELINE, `${events.map((event) => JSON.stringify(event)).join('\n')}\n`)
  for (const [name, text] of await snapshotFiles(graph)) files.set(`snapshots/${name}`, text)
  const pointers = `${JSON.stringify({ pointers: pointersOf(events) }, undefined, 2)}\n`
  const manifest = manifestOf(graph, plan, [...artifacts.keys()], pointers, options)
  files.set('manifest.json', `${JSON.stringify(manifest, undefined, 2)}\n`)
  const sums = checksums(files)
  files.set('integrity/sha256sums.txt', `${sums}\n`)
  const root = sha256(sums)
  files.set('integrity/pack.sha256', `${root}\n`)
  refuseTooLarge(plan, files)
  await located(project, run) // or a trim has taken away meanwhile what was to be read
  await write(join(folder, 'pack'), files)
  await write(folder, new Map([[POINTERS, pointers]]))
  return { folder, files: [...files.keys()].sort(), events: events.length, root }
}

/** Told before the first file is written: half a pack, or one with another's files among its own, is of no use to anybody. */
async function refuseOccupied(folder: string): Promise<void> {
  for (const path of [join(folder, 'pack'), join(folder, POINTERS)])
    if (await isThere(path)) throw new Refused(`${path} exists already`, 'export into an empty folder')
}

/** What is above the limits of the contract nobody would admit. */
function refuseTooLarge(plan: string, files: ReadonlyMap<string, string>): void {
  const what = `the evidence of ${plan}`
  if (files.size > MOST_FILES)
    throw new Refused(`${what} has ${files.size} files, more than ${MOST_FILES}`, 'a pack cannot hold it')
  let bytes = 0
  for (const text of files.values()) bytes += Buffer.byteLength(text)
  if (bytes > MOST_BYTES) throw new TooLarge(what, bytes, MOST_BYTES, 'a pack cannot hold it')
}

/** The lines of sha256sums.txt: by path, two spaces, no final newline. */
export function checksums(files: ReadonlyMap<string, string | Uint8Array>): string {
  const paths = [...files.keys()].filter((path) => !INTEGRITY.has(path)).sort()
  return paths.map((path) => `${sha256(files.get(path)!)}  ${path}`).join('\n')
}

export const sha256 = (bytes: string | Uint8Array): string => hash('sha256', bytes, 'hex')

/** A run, and what hangs on it, by their ids. */
interface Ran {
  readonly id: string
  readonly plan: string
  readonly trace: string
}

async function located(project: Project, run: string): Promise<Ran & { readonly graph: ProjectGraph }> {
  const where = await project.locate(run, 'run', 'plan', 'trace')
  if (!where) throw new NotFound('run', run)
  const graph = await upToDate(project, where)
  for (const node of graph.state.nodesOf(where.group))
    if (node.kind === 'run') return { graph, id: node.id, plan: node.data.plan_id, trace: node.data.trace_id }
  throw new NotFound('run', run)
}

/** Every protocol object that hangs on the run, one file each. */
async function artifactsOf(
  graph: ProjectGraph,
  project: Project,
  { id: run, plan, trace }: Ran,
): Promise<ReadonlyMap<string, Json>> {
  const found = new Map<string, Json>()
  const put = (kind: DocumentKind, document: Json) => {
    let name = `${kind}.json`
    for (let n = 2; found.has(name); n++) name = `${kind}-${n}.json`
    found.set(name, document)
  }
  const add = async (kind: DocumentKind, id: string, from = graph) => put(kind, (await from.document(kind, id)) as Json)
  put('context', await contextOf(graph, run))
  await add('plan', plan)
  await add('trace', trace)
  const nodes = [...graph.state.nodesOf(plan)]
  const silent = new Set<string>() // a trace that nobody has told anything is evidence of nothing, nor is what was asked about it
  for (const { id } of ofKind(nodes, 'trace')) {
    if (id === trace) continue
    const other = await graph.document('trace', id) // of a way back
    if (other.events?.length) put('trace', other as unknown as Json)
    else silent.add(id)
  }
  for (const { id, data } of ofKind(nodes, 'confirm')) if (!silent.has(data.target_id)) await add('confirm', id)
  for (const kind of ['collab', 'dialog', 'extension', 'network'] as const)
    for await (const [key, where] of graph.store.scan(INDEX.id(kind, ''))) {
      if ((where as Whereabouts).graph !== graph.id) continue
      const id = idIn(key)
      if (await graph.find(kind, id)) await add(kind, id) // one that was deleted keeps its row
    }
  for (const node of project.graph.state.nodes())
    if (node.kind === 'role' || node.kind === 'core') await add(node.kind, node.id, project.graph)
  return found
}

/** As the run had it, active: what has become of it since is no part of the run. */
async function contextOf(graph: ProjectGraph, run: string): Promise<Json> {
  const end =
    (await graph.history('run', run)).find(({ after }) => after?.phase === 'ended')?.revision ?? graph.revision
  const past = (await graph.history('context', graph.id)).filter(({ revision }) => revision <= end)
  const had = past.findLast(({ after }) => after?.status === 'active') ?? past.at(-1)
  if (!had) throw new NotFound('run', run) // taken away meanwhile
  return had.after!
}

/**
 * What has a family and is this plan's or no plan's, in the order of the stamps. Of what is no plan's and came after its end only what happened to the
 * graph: that somebody's tool was executed in the context since is no part of the run.
 */
async function timelineOf(graph: ProjectGraph, plan: string): Promise<readonly BornEvent['event'][]> {
  const events: BornEvent['event'][] = []
  let hasEnded = false
  for await (const entry of graph.store.read(graph.id)) {
    for (const { event, plan_id } of eventsIn(entry)) {
      const isOurs = plan_id === plan || (plan_id === undefined && (!hasEnded || event.event_family === 'graph_update'))
      if (isOurs && event.event_family !== undefined) events.push(event)
      if (plan_id === plan && event.to_state !== undefined) hasEnded = true
    }
  }
  return events.sort((a, b) =>
    a.timestamp === b.timestamp ? (a.event_id < b.event_id ? -1 : 1) : a.timestamp < b.timestamp ? -1 : 1,
  )
}

async function snapshotFiles(graph: ProjectGraph): Promise<ReadonlyMap<string, string>> {
  const taken = snapshotsOf(graph).toSorted((a, b) => a.data.revision - b.data.revision)
  if (taken.length === 0) return new Map()
  const files = new Map<string, string>()
  const index: JsonObject[] = []
  const revisions = taken.map(({ data }) => data.revision)
  let next = 0
  for await (const { kinds, differences } of eachSince(graph, revisions, graph.revision)) {
    const { snapshot_id, taken_at } = taken[next++]!.data
    const diff_path = `diffs/${snapshot_id}.json`
    files.set(diff_path, `${JSON.stringify(differences.map(({ kind, id }) => ({ kind, id })))}\n`)
    const modules_captured = DOCUMENT_KINDS.filter((kind) => kinds.has(kind)) // in the protocol's order
    index.push({ snapshot_id, timestamp: taken_at, modules_captured, diff_path })
  }
  files.set('index.json', `${JSON.stringify(index, undefined, 2)}\n`)
  return files
}

function manifestOf(
  graph: ProjectGraph,
  plan: string,
  artifacts: readonly string[],
  pointers: string,
  { scenario }: PackOptions,
): JsonObject {
  return {
    pack_version: '1.0',
    pack_id: graph.clock.uuid(),
    created_at: isoNow(graph.clock),
    protocol_version: '1.0.0',
    generator: {
      name: 'mplp-runtime',
      version: VERSION,
      fingerprint: digestOf(canonical({ name: 'mplp-runtime', version: VERSION })),
    },
    scenario_id: scenario ?? plan,
    artifacts_included: artifacts,
    compatibility: { min_ruleset_version: '1.0', max_ruleset_version: '1.0' },
    substrate: { type: 'mplp-runtime', version: VERSION },
    evidence_pointers: { sha256: sha256(pointers) }, // they lie beside the pack, where its own checksums do not reach
  }
}

async function write(folder: string, files: ReadonlyMap<string, string>): Promise<void> {
  for (const [path, text] of files) {
    const target = join(folder, path)
    folderFor(target, folder)
    await writeFile(target, text, { flag: 'wx' }).catch((cause: NodeJS.ErrnoException) => {
      throw cause.code === 'EEXIST'
        ? new Refused(`${target} exists already`, 'export into an empty folder', { cause })
        : unwritable(target, cause)
    })
  }
}

function folderFor(target: string, folder: string): void {
  try {
    makeFolder(dirname(target))
  } catch (error) {
    const cause = error as NodeJS.ErrnoException
    if (error instanceof Refused) throw error
    throw cause.code === 'ENOTDIR' || cause.code === 'EEXIST'
      ? new Refused(`${folder} cannot be a folder`, 'export into an empty folder', { cause })
      : unwritable(target, cause)
  }
}

const unwritable = (path: string, cause: NodeJS.ErrnoException): Refused =>
  new Refused(`${path} cannot be written (${cause.code})`, 'export into a folder that this process may write to', {
    cause,
  })
