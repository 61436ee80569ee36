import type { ActionResult, Spend } from '../ael/adapter.ts'
import { endedEvent, startedEvent } from '../ael/events.ts'
import { withSpent } from '../ael/failure.ts'
import type { Observer } from '../ael/layer.ts'
import { spentBy } from '../ael/outputs.ts'
import { chargeOf } from '../ael/with-observe.ts'
import { ActionError } from '../protocol/errors.ts'
import type { Digest, Json, JsonObject } from '../protocol/json.ts'
import type { ActionRecord, Patch } from '../psg/change.ts'
import { isMuch, keepActed } from './acted.ts'
import { failureOf, unasked } from './attempt-failure.ts'
import { bindingOf } from './flight.ts'
import { land } from './land.ts'
import type { Flight, LiveRun, WayBack } from './live.ts'
import { outcomeOf, wholeOutput } from './outcome.ts'
import { blanksIn, filledIn, THIS_STEP } from './references.ts'
import { execution, roleOf, whereInRun } from './steps.ts'
import { untold } from './untold.ts'
import { linesTold, saysUsage, uses } from './usage.ts'
import { adaptersWayBack, unknownBack } from './way-back.ts'

/** Carries an action out; its end, whatever it is, comes back through the inbox. A throw becomes an outcome here and only here. */
export async function takeOff(run: LiveRun, flight: Flight): Promise<void> {
  const { clock } = run.graph
  const began = clock.now()
  let result: ActionResult | undefined
  try {
    const action = needsParams(flight) ? { ...flight.action, params: await paramsOf(run, flight) } : flight.action
    const role = roleOf(run, flight)
    const { resume_blob, resume: inline } = run.graph.get('action', action.action_id)?.data ?? {}
    const resume = resume_blob === undefined ? inline : await blobJson(run, resume_blob, flight.step)
    result = await run.layer.attempt(action, {
      signal: run.abort.signal,
      execution_id: flight.execution_id,
      attempt: flight.attempt,
      observer: observing(run, flight),
      checkpoint: (state, spent) => keep(run, flight, state, spent),
      run: whereInRun(run, flight),
      ...(role !== undefined && { role }),
      ...(resume !== undefined && { resume: structuredClone(resume) }), // the graph's is frozen, which would be met only after a crash
    })
    const declared = bindingOf(run, flight).inverse
    const back =
      flight.compensates !== undefined
        ? undefined
        : typeof declared === 'object'
          ? await declaredInverse(run, flight, declared, result)
          : declared === undefined
            ? adaptersWayBack(run.layer, action, result)
            : { inverse: declared }
    run.inbox.push({ kind: 'completed', flight, result, ...(back && { back }) })
  } catch (error) {
    const failure = flight.compensates === undefined ? failureOf(error) : unasked(failureOf(error))
    const charged = result ? withSpent(failure, spentBy(result) ?? {}) : failure // it was done, whatever came of that afterwards
    run.inbox.push({ kind: 'failed', flight, error: charged, duration_ms: Math.max(0, clock.now() - began) })
  }
  if (run.awaiting.size > 0) run.awaiting.delete(flight.execution_id) // it may not have waited for all of its children
  run.layer.places?.leave(flight.execution_id)
  run.wake()
}

/** A checkpoint above this goes to the blobs: each one is written twice into the journal, as what was and what is. */
const INLINE_CHARACTERS = 4_096

/** What an action hands over on its way is stored before it goes on: whoever takes it over goes on from there. */
async function keep(run: LiveRun, { action }: Flight, state: Json, spent: Spend | undefined): Promise<void> {
  const text = JSON.stringify(state)
  const set =
    text.length <= INLINE_CHARACTERS
      ? { resume: state, resume_blob: undefined }
      : { resume: undefined, resume_blob: await stored(run, new TextEncoder().encode(text)) }
  if (spent) saysUsage(run, action.action_id, spent)
  if (!(await tells(run, [action.action_id, set])))
    throw run.owner.lost.reason ?? new ActionError('action_aborted', 'another process has taken the run over')
}

/** Commits what actions under way have to tell; false when the run is no longer ours. */
function tells(run: LiveRun, checkpoint?: readonly [string, Patch<ActionRecord>]): Promise<boolean> {
  const events = run.told.splice(0)
  const changes = () => {
    // As it is when it lands: what has ended while the store was away has said all.
    const said = untold(run)
    if (checkpoint) said.set(checkpoint[0], { ...checkpoint[1], ...said.get(checkpoint[0]) })
    const told = [...said].map(([id, set]) => ({ kind: 'node_update', node: 'action', id, set }) as const)
    return [...told, ...linesTold(run, events)]
  }
  return land(run, { changes, events, reason: checkpoint ? 'checkpoint' : 'what an action carries out' })
}

/** Nothing begins once others may have begun it. Actions that an action carries out are told too, with the next commit, and count with it. */
const observing = (run: LiveRun, flight: Flight): Observer => ({
  started(attempt) {
    if (!run.owner.isOurs()) throw run.owner.lost.reason
    if (attempt.parent_execution_id !== undefined) run.told.push(execution(run, startedEvent(attempt)))
  },
  ended(attempt, end) {
    if (attempt.parent_execution_id === undefined) return undefined
    run.told.push(execution(run, endedEvent(attempt, end)))
    const spend = chargeOf(end)
    if (spend) uses(run, flight.action.action_id, spend)
    if (flight.compensates === undefined) keepActed(run, flight, attempt, end)
    return isMuch(run) ? tells(run).then(() => undefined) : undefined
  },
})

/** What takes something back has its params already; a turn's always name it. */
const needsParams = ({ action, compensates, turn }: Flight): boolean =>
  compensates === undefined && (turn !== undefined || blanksIn(action.params).from.size > 0)

async function paramsOf(run: LiveRun, { step, action, turn }: Flight): Promise<JsonObject> {
  const outputs = await outputsFor(run, action.params, step)
  return filledIn(action.params, (from) => outputs.get(from), turn)
}

/** The outputs of the steps that params refer to. */
async function outputsFor(
  run: LiveRun,
  params: JsonObject,
  step: string,
): Promise<ReadonlyMap<string, Json | undefined>> {
  const outputs = new Map<string, Json | undefined>()
  for (const from of blanksIn(params).from) {
    const record = outcomeOf(run.graph.state, from === THIS_STEP ? step : from)?.data
    outputs.set(from, record && (await wholeOutput(record, (digest) => blobJson(run, digest, step))))
  }
  return outputs
}

const stored = ({ graph: { store }, abort, patiently }: LiveRun, bytes: Uint8Array): Promise<Digest> =>
  patiently(() => store.putBlob(bytes), abort.signal)

async function blobJson({ graph: { store }, abort, patiently }: LiveRun, digest: Digest, step: string): Promise<Json> {
  const bytes = await patiently(() => store.getBlob(digest), abort.signal)
  if (!bytes) throw new ActionError('action_failed', `what step ${step} needs, ${digest}, is not in the store`)
  return JSON.parse(new TextDecoder().decode(bytes))
}

/** What the binding says takes it back, with the outputs and the turn that it refers to. */
async function declaredInverse(
  run: LiveRun,
  { step, turn }: Flight,
  declared: JsonObject,
  { output }: Pick<ActionResult, 'output'>,
): Promise<WayBack> {
  try {
    const others = await outputsFor(run, declared, step)
    return { inverse: filledIn(declared, (from) => (from === step ? output : others.get(from)), turn) }
  } catch (error) {
    if (run.abort.signal.aborted) throw error // it was not waited for
    return unknownBack(error)
  }
}
