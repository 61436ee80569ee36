import type { Adapter, Asker } from '../ael/adapter.ts'
import { byPath } from '../drift/compare.ts'
import { recorded } from '../drift/desk.ts'
import type { ScanOptions } from '../drift/scan.ts'
import type { Reconciled } from '../drift/settle.ts'
import { trackFiles } from '../drift/track.ts'
import { checkOptions, type ScanReport, type Tracker, type TrackOptions } from '../drift/tracker.ts'
import { systemClock } from '../protocol/clock.ts'
import { NotFound } from '../protocol/errors.ts'
import { type Digest, uuidOf } from '../protocol/json.ts'
import { META } from '../protocol/meta.ts'
import type { FindingRecord } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import type { Project } from '../psg/project.ts'
import { patientWith } from './patiently.ts'
import { withTracking } from './tracked-files.ts'

export { EXCLUDED } from '../drift/select.ts'

export interface FolderOptions extends TrackOptions {
  /** The real path. */
  readonly root: string
  /** Whose files these are. Absent: a context of the folder's own, so that runs of every context share one belief about each file. */
  readonly context?: string
}

/** A scan of the whole folder, in the same words over HTTP and on the command line. */
export interface FolderScan extends ScanReport {
  readonly root: string
  /** What rules and people's decisions have settled meanwhile, also by the opening where there was one. */
  readonly settled: readonly Reconciled[]
}

/** A folder and the graph that knows its files. Nothing is looked at before it is needed. */
export interface ProjectFolder {
  readonly root: string
  /** The context whose graph knows the files, if it is there already. */
  known(): Promise<ProjectGraph | undefined>
  /** The same, made when it is first asked for. Throws NotFound for a context that was named and is not there. */
  graph(): Promise<ProjectGraph>
  /** Opened when it is first asked for; the first time ever, everything is taken in as it lies there. */
  tracker(): Promise<Tracker>
  /** Looks at everything, opening the tracker first if nobody has. */
  scan(options?: ScanOptions): Promise<FolderScan>
  /** What was found and is not settled; the disk is not looked at. Throws NotFound for a context that was named and is not there. */
  findings(): Promise<readonly FindingRecord[]>
  /** A file adapter whose reads and writes the graph is told of. */
  tracked(adapter: Adapter): Adapter
  /** For that adapter: is what lies there something that the asker has not seen? */
  readonly staleCheck: (path: string, found: Digest | undefined, asker: Asker) => Promise<boolean>
  /** For that adapter too: do the ignore rules let it write there? */
  readonly mayWrite: (path: string) => Promise<boolean>
  /** Safe to call twice. */
  close(): Promise<void>
}

/** Throws InvalidInput for what no folder can be held against a graph by; nothing is opened for it. */
export const checkFolderOptions = ({ context: _, ...tracking }: FolderOptions): void => checkOptions(tracking)

/** `project` may still be opening: the action layer, which this is a part of, is made before it. */
export function projectFolder(project: Project | Promise<Project>, options: FolderOptions): ProjectFolder {
  const { context, ...tracking } = options
  const { root, clock = systemClock } = options
  const patiently = patientWith(clock, () => undefined) // the run that asks tells of it
  const hearing = new Set<(readonly Reconciled[])[]>()
  let opening: Promise<Tracker> | undefined

  const onReconciled = (results: readonly Reconciled[]) => {
    for (const heard of hearing) heard.push(results)
    tracking.onReconciled?.(results)
  }

  const known = async () => {
    const { id, opening: open } = await project
    const own = context ?? folderId(id, root)
    const graph = await open(own)
    await graph.refresh()
    return graph.get('context', own) ? graph : undefined
  }
  const graph = async () => {
    if (context !== undefined) return (await project).context(context)
    return (await known()) ?? made(await project, root)
  }
  const tracker = () => {
    opening ??= graph().then((found) => trackFiles(found, { ...tracking, onReconciled }))
    opening.catch(() => {
      opening = undefined // the next one who asks tries again
    })
    return opening
  }

  return {
    root,
    known,
    graph,
    tracker,
    async scan(options) {
      const heard: (readonly Reconciled[])[] = []
      hearing.add(heard)
      try {
        const report = await (await tracker()).scan(options)
        const last = new Map(heard.flat().map((one) => [one.finding.finding_id, one])) // what the opening could not do was tried again
        return { root, ...report, settled: [...last.values()].filter(({ outcome }) => outcome !== 'asked') } // which is a finding still
      } finally {
        hearing.delete(heard)
      }
    },
    async findings() {
      const found = await known()
      if (!found && context !== undefined) throw new NotFound('context', context) // or one that is misspelt would be found in order
      await found?.load('drift')
      return found ? [...recorded({ graph: found })].sort(byPath) : []
    },
    tracked: (adapter) => ({
      ...adapter,
      async execute(action, call) {
        const opened = await call.untimed(patiently(tracker, call.signal))
        return withTracking(adapter, opened, patiently).execute(action, call)
      },
    }),
    mayWrite: async (path) => (await tracker()).mayWrite(path),
    async staleCheck(path, found, asker) {
      const opened = await tracker()
      if (!(await opened.staleCheck(path, found, asker))) return false
      await (await graph()).refresh() // another process may have written it a moment ago, and said so
      return opened.staleCheck(path, found, asker)
    },
    async close() {
      const opened = await opening?.catch(() => undefined) // whoever asked for it was told
      await opened?.close()
    },
  }
}

/** The same for the same folder of the same store, so that two processes that meet it first make one context and not two. */
const folderId = (project: string, root: string): string => uuidOf(`the folder ${root} of ${project}`)

async function made(project: Project, root: string): Promise<ProjectGraph> {
  const context_id = folderId(project.id, root)
  const context = {
    meta: META,
    context_id,
    root: { domain: 'files', environment: 'local' },
    title: `Files of ${root}`,
    status: 'active',
  }
  try {
    return await project.create(context, { actor: 'runtime', reason: 'a folder is held against the graph' })
  } catch (error) {
    const there = await project.context(context_id).catch(() => undefined) // nobody else made it: what went wrong is told
    if (!there) throw error
    return there
  }
}
