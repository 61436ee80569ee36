import { basename, dirname, join } from 'node:path'
import { below } from '../protocol/below.ts'
import { isoNow } from '../protocol/clock.ts'
import type { Digest } from '../protocol/json.ts'
import type { FileRecord } from '../psg/change.ts'
import { isKind } from '../psg/node.ts'
import { checkWrote } from './check-input.ts'
import { believed, believing, commit, type Desk, enterFolders, observed } from './desk.ts'
import { agreedOn, recordOf } from './reconcile.ts'
import { disk, type Root, unlessElsewhere } from './root.ts'
import type { Reader, Reads } from './stale.ts'

/** A change of files that an action is making. */
export interface Writing {
  /** The action has written: from now on the graph believes it, by whom, and in which run. */
  wrote(files: readonly Wrote[], by: Author): Promise<void>
  /** It is over, whatever came of it: the paths are looked at again. */
  release(): void
}

export interface Wrote {
  readonly path: string
  /** What lies there now; `null` for nothing. */
  readonly digest: Digest | null
  readonly size?: number
  readonly mode?: number
}

export interface Author extends Reader {
  readonly action_id: string
  readonly run?: { readonly trace_id: string; readonly plan_id: string }
}

export interface Hands {
  readonly paths: readonly string[]
  readonly serially: <T>(work: () => Promise<T>) => Promise<T>
  readonly read: Reads
  /** Takes in rules that may lie at these paths. */
  readonly obey: (paths: readonly string[]) => Promise<void>
  readonly release: (paths: readonly string[]) => void
}

export async function writing(desk: Desk, { paths: named, serially, read, obey, release }: Hands): Promise<Writing> {
  // The watch tells of the place that is written, not of the name that led there.
  const places = await Promise.all(named.map((path) => throughLinks(desk.root, path)))
  const paths = new Set([...named, ...places.filter((place) => place !== undefined)])
  for (const path of paths) desk.held.set(path, (desk.held.get(path) ?? 0) + 1)
  const leave = await desk.turn(paths) // or the second would find what the graph has not been told of yet
  let released = false
  return {
    async wrote(files, by) {
      checkWrote(files, by)
      await serially(async () => {
        const records: [path: string, record: FileRecord | null][] = []
        for (const file of files) {
          read.note(file.path, file.digest ?? undefined, by)
          await enterFolders(desk, file.path)
          if (desk.select.hasFile(file.path)) records.push([file.path, await written(desk, file, by)])
        }
        const run = by.run && (await runOf(desk, by.run.plan_id))
        const wrote = () => records.flatMap(([path, record]) => believing(desk, path, record))
        const reason = `a file was ${deedOn(files)} by action ${by.action_id}` // nothing else says who deleted it
        await commit(desk, wrote, reason, run === undefined ? {} : { run })
      })
      await obey(files.map(({ path }) => path))
    },
    release() {
      if (released) return
      released = true
      leave()
      for (const path of paths) {
        const left = desk.held.get(path)! - 1
        if (left > 0) desk.held.set(path, left)
        else desk.held.delete(path)
      }
      release([...paths])
    },
  }
}

function deedOn(files: readonly Wrote[]): string {
  const gone = files.filter(({ digest }) => digest === null)
  return gone.length === 0 ? 'written' : gone.length === files.length ? 'deleted' : 'moved'
}

/** Where a path leads when the links on its way are followed, from the root on; `undefined` when that is the root itself or outside. */
async function throughLinks(root: Root, path: string): Promise<string | undefined> {
  return below(root.path, await realOf(join(root.path, path)))
}

/** Of what is not there yet, or cannot be followed: where it would be, as far as its folders tell. */
async function realOf(path: string): Promise<string> {
  const real = await disk.realpath(path).catch(() => undefined) // its folder is asked
  if (real !== undefined || path === dirname(path)) return real ?? path
  return join(await realOf(dirname(path)), basename(path))
}

/** What the graph believes after a write. Somebody may have changed the file since: then it believes in what was written, and that is a finding. */
async function written(
  desk: Desk,
  { path, digest, size = 0, mode = 0o644 }: Wrote,
  by: Author,
): Promise<FileRecord | null> {
  if (digest === null) return null
  const there = await observed(desk, path).catch(unlessElsewhere)
  if (there?.digest === digest) return recordOf(path, there, by.action_id)
  const old = believed(desk, path)
  const kept = old?.digest === digest && old.kept
  const shape = { type: 'file' as const, digest, size, mode, kept }
  return {
    path,
    ...shape,
    mtime: isoNow(desk.clock),
    written_by: by.action_id,
    agreed: agreedOn({ ...shape, mtime_ms: 0, ctime_ms: 0, ino: 0 }),
  }
}

/** The run of a plan: another process, or another reader of the graph in this one, may have started it a moment ago. */
async function runOf({ graph }: Desk, plan: string): Promise<string | undefined> {
  await graph.refresh()
  return graph.reading([['plan', plan]], (state) => {
    const runs = [...state.nodesOf(state.get('plan', plan)?.group ?? '')].filter((node) => isKind(node, 'run'))
    return state.plan(plan)?.activeRun ?? runs.at(-1)?.id
  })
}
