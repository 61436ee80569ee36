import { isAbsolute, sep } from 'node:path'
import { below } from '../protocol/below.ts'
import type { Clock } from '../protocol/clock.ts'
import { Closed } from '../protocol/errors.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { slept } from '../protocol/waiting.ts'
import type { EntryBody, EntryChange } from '../psg/change.ts'
import { endsTrace, isFieldChange } from '../psg/field-change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { placeOf } from '../psg/node.ts'

/** What an entry of the journal means to those who compare graph and disk. */
export interface News {
  /** Files that the graph believes something new about, or that somebody outside says have changed. */
  readonly paths: readonly string[]
  /** Confirms whose status moved. */
  readonly confirms: readonly string[]
  /** Traces that have ended, as they do with their runs. */
  readonly traces: readonly string[]
}

export interface Following {
  /** The revision above which it begins. */
  readonly after: number
  readonly signal: AbortSignal
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

/**
 * Reads on in a graph's journal until the signal is aborted or the store closed. A store that is away is told of once and then asked again and again;
 * what `heard` throws is told too, and the entry passed by.
 */
export async function follow(
  graph: ProjectGraph,
  { after, signal, clock, onError }: Following,
  heard: (body: EntryBody) => Promise<void>,
): Promise<void> {
  let reached = after
  for (let failures = 0; !signal.aborted; ) {
    try {
      for await (const entry of graph.store.read(graph.id, { after: reached, follow: true, signal })) {
        await graph.refresh()
        reached = entry.revision
        failures = 0
        await heard(entry.body as unknown as EntryBody).catch(onError)
      }
      return // only a store that closes ends a read that follows
    } catch (error) {
      if (signal.aborted || error instanceof Closed) return
      if (failures === 0) onError(error)
      await slept(clock, Math.min(100 * 2 ** failures++, 10_000), signal)
    }
  }
}

/** Pure: what is new for us in an entry. `root` is the tracked folder. */
export function newsIn({ changes, events }: EntryBody, root: string): News {
  const paths = new Set<string>()
  const confirms: string[] = []
  const traces: string[] = []
  for (const change of changes) {
    const { kind, id } = placeOf(change.key)
    if (kind === 'file') {
      const path = (dataOf(change) as { path?: string } | undefined)?.path
      if (path !== undefined) paths.add(path)
    } else if (kind === 'confirm') confirms.push(id)
    else if (kind === 'trace' && endsTrace(change)) traces.push(id)
  }
  for (const one of events) if ('event' in one) for (const path of toldPaths(one.event, root)) paths.add(path)
  return { paths: [...paths], confirms, traces }
}

function dataOf(change: EntryChange): JsonObject | undefined {
  return isFieldChange(change) ? undefined : (change.after ?? change.before)?.data
}

/** The paths of a file_update from outside, as ours: an editor may name them from its own folder on. */
function toldPaths(event: JsonObject, root: string): readonly string[] {
  const { event_family, event_type, source, payload } = event
  if (event_family !== 'external_integration' || event_type !== 'file_update' || source === 'drift') return []
  if (!isObject(payload)) return []
  const { file_path, previous_path, workspace_root } = payload
  return [file_path, previous_path].flatMap((path) => ours(path, workspace_root, root) ?? [])
}

function ours(path: Json | undefined, workspace: Json | undefined, root: string): string | undefined {
  if (typeof path !== 'string' || path === '' || path.includes('\0')) return undefined
  const home = typeof workspace === 'string' ? workspace : root
  return below(root, isAbsolute(path) ? path : `${home}${sep}${path}`)
}
