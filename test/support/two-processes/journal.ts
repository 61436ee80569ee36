import { isObject } from '../../../src/protocol/json.ts'
import type { EntryBody, EntryChange, Run } from '../../../src/psg/change.ts'
import { isFieldChange } from '../../../src/psg/field-change.ts'
import { placeOf } from '../../../src/psg/node.ts'
import { eventsIn } from '../../../src/psg/told.ts'
import type { Entry } from '../../../src/vsl/backend.ts'

/** Every change of a plan's or a step's status is told in its own entry by events that lead from the old one to the new one, and nothing else is. */
export function untold(entries: readonly Entry[]): readonly string[] {
  const faults: string[] = []
  const known = new Map<string, string>()
  const statusOf = (kind: string, id: string) => known.get(id) ?? (kind === 'plan' ? 'draft' : 'pending')
  for (const entry of entries) {
    for (const { event } of eventsIn(entry)) {
      if (event.event_family !== 'pipeline_stage' || !isObject(event.payload)) continue
      const { resource_type: kind, resource_id, from_status: from, to_status: to } = event.payload
      if (kind !== 'plan' && kind !== 'step') continue
      const id = String(resource_id)
      const was = statusOf(kind, id)
      if (from !== was || to === was)
        faults.push(`${kind} ${id} is told to go from ${from} to ${to} while it is ${was}`)
      known.set(id, String(to))
    }
    for (const change of changesOf(entry)) {
      const { kind, id } = placeOf(change.key)
      const status = nowOf(change)?.status
      if ((kind !== 'plan' && kind !== 'step') || status === undefined || status === statusOf(kind, id)) continue
      faults.push(`${kind} ${id} came to be ${status}, but was last told to be ${statusOf(kind, id)}`)
    }
  }
  return faults
}

/**
 * Once a cancel is stored, or somebody heard so at a revision, the owner may land one more tick, which had looked before. That one may start steps or
 * complete the run; none after it may.
 */
export function lostCancel(entries: readonly Entry[], run: Run, heard = Number.POSITIVE_INFINITY): readonly string[] {
  const asks = (change: EntryChange) => isOfRun(run, change) && nowOf(change)?.requested === 'cancel'
  const stored = entries.find((entry) => changesOf(entry).some(asks))?.revision ?? Number.POSITIVE_INFINITY
  const ticks = entries.filter((entry) => entry.revision > Math.min(stored, heard) && isTickOf(run, entry))
  const starting = ticks.filter((entry) => changesOf(entry).some(startsStep))
  const overruled = entries.some((entry) =>
    changesOf(entry).some(
      (change) => isFieldChange(change) && change.was.requested === 'cancel' && change.now.requested,
    ),
  )
  return [
    ...(overruled ? ['a cancel was lost: another wish took its place'] : []),
    ...(starting.length > 1 ? [`a cancel was lost: ${starting.length} ticks have started steps since`] : []),
    ...(run.result?.status === 'completed' && ticks.length > 1 ? ['a cancel was lost: the run completed'] : []),
  ]
}

/** While it is to pause or its context is suspended a run tries nothing, but in one tick, which had looked before; and in such a context no step begins. */
export function notHeld(entries: readonly Entry[], run: Run): readonly string[] {
  const pauses = (change: EntryChange) => {
    const requested = isOfRun(run, change) ? nowOf(change)?.requested : undefined
    return requested === undefined ? undefined : requested === 'pause'
  }
  const suspends = (change: EntryChange) =>
    placeOf(change.key).kind === 'context' ? nowOf(change)?.status === 'suspended' : undefined
  const isTry = (entry: Entry) => isTickOf(run, entry) && changesOf(entry).some(triesAction)
  const begins = (entry: Entry) => changesOf(entry).some(startsStep)
  const isNewTry = (entry: Entry) => isTry(entry) && (entry.body as EntryBody).reason !== AFTER_CRASH
  return [
    ...(mostWhile(pauses, isTry, entries) > 1 ? ['a run goes on that is to pause'] : []),
    ...(mostWhile(suspends, isNewTry, entries) > 1 ? ['a run goes on in a suspended context'] : []),
    ...(mostWhile(suspends, begins, entries) > 0 ? ['a step began in a suspended context'] : []),
  ]
}
/** What a dead owner had under way is under way still, whatever its context is. */
const AFTER_CRASH = 'goes on after an interruption'

/** How many entries are such, at most, from a change that `holds` says true of to the next that it says false of. */
function mostWhile(
  holds: (change: EntryChange) => boolean | undefined,
  isSuch: (entry: Entry) => boolean,
  entries: readonly Entry[],
): number {
  let most = 0
  let since: number | undefined
  for (const entry of entries) {
    if (since !== undefined && isSuch(entry)) most = Math.max(most, ++since)
    for (const verdict of changesOf(entry).map(holds))
      if (verdict !== undefined) since = verdict ? (since ?? 0) : undefined
  }
  return most
}

/** Never are more actions under way than the run was allowed. */
export function crowded(entries: readonly Entry[], { plan_id, options }: Run): readonly string[] {
  const running = new Set<string>()
  let most = 0
  for (const entry of entries) {
    for (const change of changesOf(entry)) {
      const { kind, group, id } = placeOf(change.key)
      const status = nowOf(change)?.status
      if (kind !== 'action' || group !== plan_id || status === undefined) continue
      if (status === 'running') running.add(id)
      else running.delete(id)
    }
    most = Math.max(most, running.size)
  }
  const allowed = Number(options.concurrency ?? Number.POSITIVE_INFINITY)
  return most > allowed ? [`${most} actions were under way at once, not ${allowed}`] : []
}

/** A run that fails and takes back what it did takes all of it back, the last thing first. */
export function notTakenBack(entries: readonly Entry[], { plan_id, result }: Run): readonly string[] {
  const done: string[] = []
  const taken: string[] = []
  const undoes = new Map<string, string>()
  const undone = new Set<string>()
  for (const change of entries.flatMap(changesOf)) {
    const { kind, group, id } = placeOf(change.key)
    if (kind !== 'action' || group !== plan_id) continue
    const { status, inverse, compensates } = nowOf(change) ?? {}
    if (compensates !== undefined) undoes.set(id, String(compensates))
    if (compensates !== undefined && !taken.includes(String(compensates))) taken.push(String(compensates))
    if (status !== 'completed') continue
    if (undoes.has(id)) undone.add(undoes.get(id)!)
    else if (inverse !== undefined) done.push(id)
  }
  const { code } = (result as { error?: { code?: string } } | undefined)?.error ?? {}
  if (code !== 'action_failed') return taken.length === 0 ? [] : [`${taken.length} actions were taken back for nothing`]
  const left = done.filter((id) => !undone.has(id))
  return [
    ...(left.length > 0 ? [`${left.length} actions were not taken back`] : []),
    ...(taken.join() === done.toReversed().join()
      ? []
      : ['what was done was not taken back from the last to the first']),
  ]
}

const nowOf = (change: EntryChange) => (isFieldChange(change) ? change.now : change.after?.data)
const changesOf = ({ body }: Entry) => (body as EntryBody).changes
const isOfRun = ({ run_id }: Run, { key }: EntryChange) => key.endsWith(`/run/${run_id}`)
const isTickOf = ({ run_id }: Run, { body }: Entry): boolean => {
  const { run, actor } = body as EntryBody
  return run === run_id && actor === 'runtime'
}
const startsStep = (change: EntryChange): boolean =>
  placeOf(change.key).kind === 'step' && nowOf(change)?.status === 'in_progress'
const triesAction = (change: EntryChange): boolean => {
  const { status, attempts, compensates } = nowOf(change) ?? {}
  return (
    placeOf(change.key).kind === 'action' &&
    (status === 'running' || attempts !== undefined) &&
    compensates === undefined // the way back is never held up
  )
}
