import { type Clock, systemClock } from '../protocol/clock.ts'
import { FencedOut, InvalidInput, MplpError } from '../protocol/errors.ts'
import type { Breach } from '../protocol/invariants.ts'
import type { JsonObject } from '../protocol/json.ts'
import { eitherOf } from '../protocol/on-abort.ts'
import { type Report, reporter } from '../protocol/reporter.ts'
import { messageOf } from '../protocol/thrown.ts'
import type { DocumentKind } from '../psg/document.ts'
import type { Backend } from '../vsl/backend.ts'
import { thisHolder } from '../vsl/holder.ts'
import { liftedBackend } from '../vsl/lifted.ts'
import {
  type FlowContract,
  type FlowError,
  FlowFailure,
  type FlowOptions,
  type FlowOutput,
  type FlowResult,
  inCapitals,
  type RuntimeContext,
} from './flow.ts'
import { type Asked, askedBy, refuseOther } from './flow-asked.ts'
import { flowBus } from './flow-bus.ts'
import { checkFlowOptions } from './flow-check.ts'
import { type FlowEvents, flowEvents, isSnapshotStore } from './flow-events.ts'
import { flowLayer } from './flow-layer.ts'
import { documentsOf, hearModules } from './flow-modules.ts'
import { carryOut } from './flow-plan.ts'
import { type FlowRecord, flowRecord, recordKey } from './flow-record.ts'
import { type FlowTime, flowTime } from './flow-time.ts'
import type { RunOptions } from './live.ts'
import { type Patience, patience } from './patience.ts'
import { isAway, STORE_AWAY_MS } from './patiently.ts'
import { createRuntime, type Runtime } from './runtime.ts'
import { patientSnapshots, withPatience } from './with-patience.ts'

/** What tells one kind of flow from another. */
export interface Profile<Flow extends FlowContract> {
  readonly name: 'sa' | 'map'
  /** The modules that speak, in this order, when the flow does not say. */
  readonly order: readonly string[]
  readonly flowKeys: readonly string[]
  /** What does not hold of these documents. */
  breaches(documents: Documents): readonly Breach[]
  /** What the run is asked to be, beside what the flow says. Throws FlowFailure. */
  runOptions(documents: Documents, flow: Flow): RunOptions
}

/** The document of each module that has one. */
export type Documents = { readonly [K in DocumentKind]?: JsonObject }

/** One call, with everything it works with. */
export interface Running<Flow extends FlowContract = FlowContract> {
  readonly options: FlowOptions<Flow>
  readonly profile: Profile<Flow>
  readonly flow: Flow
  readonly ctx: RuntimeContext
  readonly asked: Asked
  readonly runtime: Runtime
  readonly record: FlowRecord
  readonly events: FlowEvents
  readonly clock: Clock
  readonly signal: AbortSignal
  /** What can be told so far; a failure tells it too. */
  output: FlowOutput
}

/** How soon a flow goes on after another one in its context has ended. */
const PATROL_MS = 200

/** Lets the modules speak, runs the plan they made by the same tick as everything else, and gives back what became of it. Never throws. */
export async function runFlow<Flow extends FlowContract>(
  options: FlowOptions<Flow>,
  profile: Profile<Flow>,
): Promise<FlowResult> {
  const context = ifReadable(() => options?.runtimeContext) as RuntimeContext
  let call: Call<Flow> | undefined
  const told = () => {
    const output = call?.running?.output
    return { ...(output && { output }), events: ifReadable(() => context?.events) ?? [], context }
  }
  try {
    checkFlowOptions(options, profile.flowKeys)
    call = callOf(options, profile)
    await call.patience.unlessOver(run(call))
    return { success: true, ...told() }
  } catch (error) {
    const { over } = call?.patience ?? {}
    return { success: false, error: errorOf(over?.aborted ? over.reason : error), ...told() }
  } finally {
    if (call) await closed(call)
    call?.patience.end()
  }
}

/** What throws when it is read is told by the check of the options. */
function ifReadable<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}

/** What one call is made with, and what it has opened so far. */
interface Call<Flow extends FlowContract> {
  readonly options: FlowOptions<Flow>
  readonly profile: Profile<Flow>
  readonly clock: Clock
  readonly patience: Patience
  readonly closing: (() => Promise<unknown>)[]
  running: Running<Flow> | undefined
}

function callOf<Flow extends FlowContract>(options: FlowOptions<Flow>, profile: Profile<Flow>): Call<Flow> {
  const { runtimeContext, clock = systemClock } = options
  const patient = patience({ ...options, runId: runtimeContext.ids.runId, clock })
  return { options, profile, clock, patience: patient, closing: [], running: undefined }
}

/** What the last one opened is closed first. */
async function closed<Flow extends FlowContract>(call: Call<Flow>): Promise<void> {
  for (const close of call.closing.splice(0).reverse()) await close().catch(reportOf(call))
}

async function run<Flow extends FlowContract>(call: Call<Flow>): Promise<void> {
  const time = flowTime(call.options.flow?.options ?? {}, call.clock)
  try {
    while (!(await hasRun(call, time))) await closed(call)
  } finally {
    time.end()
  }
}

/**
 * False when another call was let in because this one was silent for too long: then that one is waited for, as by any second call. And when the store is
 * away: then all of it is gone on with from what is stored, as by any later call, for as long as there is patience.
 */
async function hasRun<Flow extends FlowContract>(call: Call<Flow>, time: FlowTime): Promise<boolean> {
  const { options, clock, patience } = call
  try {
    const running = await opened(call, time)
    await hearModules(running, AbortSignal.any([running.signal, time.over]))
    await carryOut(running)
    await running.events.catchUp()
    return true
  } catch (error) {
    if (isTakenOver(error, options.runtimeContext.ids.runId)) return false
    if (!isAway(error) || patience.over.aborted) throw error
    patience.failed(error)
    await clock.sleep(STORE_AWAY_MS, patience.over)
    return false
  }
}

/** A store that forgets who owned what has no newer owner, and nobody to wait for. */
const isTakenOver = (error: unknown, runId: string): boolean =>
  error instanceof FencedOut && error.stream === recordKey(runId) && error.token > error.fence

/** What goes wrong beside the flow. That its patience is over is told by its result. */
function reportOf<Flow extends FlowContract>({ options, patience: { over } }: Call<Flow>): Report {
  const report = reporter(options.onError)
  return (error) => (over.aborted && error === over.reason ? undefined : report(error))
}

/** Everything that a call holds. */
async function opened<Flow extends FlowContract>(call: Call<Flow>, time: FlowTime): Promise<Running<Flow>> {
  const { options, profile, clock, patience, closing } = call
  const { runtimeContext: ctx, vsl } = options
  const { ask, over } = patience
  const onError = reportOf(call)
  const { signal, unlink } = eitherOf(over, options.signal)
  closing.push(async () => unlink()) // the caller's may live on
  const store = withPatience(isBackend(vsl) ? vsl : await ask('open', () => liftedBackend(vsl, { clock })), patience)
  if (!isBackend(vsl)) closing.push(store.close)
  const holder = thisHolder(clock.uuid())
  const waiting = AbortSignal.any([signal, time.over])
  const record = await flowRecord(store, ctx.ids.runId, { clock, holder, signal: waiting })
  closing.push(record.release)
  const asked = askedBy(options, profile.name)
  refuseOther(options, record.memory, asked) // before anybody is told of the run, or goes on with it
  closing.push(flowBus(options.bus ?? [], { store, holder, clock, onError, over }))
  const snapshots = isSnapshotStore(vsl) ? patientSnapshots(vsl, patience) : undefined
  const events = flowEvents(store, ctx, record.memory, snapshots)
  const { plan } = documentsOf({ record })
  if (plan) events.plans.add(String(plan.plan_id))
  closing.push(events.catchUp)
  const layer = flowLayer(options, clock)
  closing.push(layer.close)
  const runtime = await createRuntime({
    store,
    clock,
    layer: layer.make,
    resolve: layer.resolve,
    onError,
    onAway: () => undefined, // how long that is put up with, and what then, is the call's to tell
    patrolMs: PATROL_MS,
    mine: events.plans,
    onCommit: events.take,
  })
  closing.push(() => runtime.close(over))
  const flow = options.flow ?? ({} as Flow)
  const working = { runtime, record, events, clock, signal }
  call.running = { options, profile, flow, ctx, asked, ...working, output: {} }
  return call.running
}

const isBackend = (vsl: FlowOptions['vsl']): vsl is Backend => typeof (vsl as Partial<Backend>).commit === 'function'

function errorOf(error: unknown): FlowError {
  if (error instanceof FlowFailure) return { code: error.code, message: error.message, ...error.more }
  if (error instanceof InvalidInput) return { code: 'INVALID_INPUT', message: error.message, problems: error.problems }
  if (error instanceof MplpError) return { code: inCapitals(error.code), message: error.message }
  return { code: 'RUNTIME_EXCEPTION', message: messageOf(error) }
}
