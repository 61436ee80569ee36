import type { AskPeople } from '../protocol/approvers.ts'
import { type Clock, isoMicros, isoNow } from '../protocol/clock.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { breachProblems } from '../protocol/invariants.ts'
import { type Json, type JsonObject, roughBytes, uuidOf } from '../protocol/json.ts'
import { META } from '../protocol/meta.ts'
import type { Collab, Context, Plan } from '../protocol/types.ts'
import type { Binding, Birth, Change, NodeAdd, Parent, Run } from '../psg/change.ts'
import { newConfirm } from '../psg/confirm.ts'
import { partsOf } from '../psg/document.ts'
import { type Bindings, bindSteps, type Resolver, type RoleFinder } from './bind.ts'
import { dependenciesFirst } from './depends.ts'
import { expiryAt, voicesOf } from './gate.ts'
import { type Knowing, lackProblems } from './lacking.ts'
import type { Decided, RunOptions } from './live.ts'
import { saBeginning, saBreaches } from './profiles/sa.ts'
import type { Inheritance } from './rerun.ts'
import type { Session } from './session.ts'
import { sa } from './steps.ts'
import { endTimer, newTimer } from './timers.ts'
import { sessionStarts } from './turns.ts'

/** What is to be done: a plan in a context, how its steps are executed, and who must agree. */
export interface Flow {
  /** A new context, or the id of one that is there. */
  readonly context: Context | string
  readonly plan: Plan
  readonly bindings?: Bindings
  readonly approval?: ApprovalAsked
  readonly options?: RunOptions
  /** Ids chosen by the caller, so that it can find again what it submitted; minted when absent. */
  readonly chosen?: { readonly run?: string; readonly trace?: string; readonly confirm?: string }
}

/** `auto`: policy approves at once, and the Confirm says so. Otherwise the plan waits for people. */
export type ApprovalAsked = 'auto' | AskPeople

/** The commits that bring a flow into the graph; only the last one makes it run. */
export interface Submission {
  readonly context_id: string
  readonly plan_id: string
  readonly run_id: string
  readonly commits: readonly {
    readonly changes: readonly Change[]
    readonly events: Readonly<Decided['events']>
    readonly reason: string
  }[]
}

/** A plan with more parts than this (a head, steps, and a binding for each), or about so many bytes, is submitted in several commits. */
const PARTS_PER_COMMIT = 4_000
const BYTES_PER_COMMIT = 8 * 1024 * 1024

/** What is known of a flow beside itself: its context if it names one that is there, and its session, settled. */
export interface Known {
  readonly resolve?: Resolver | undefined
  readonly role?: RoleFinder
  readonly context?: Context | undefined
  readonly session?: { readonly settled: Session; readonly collab: Collab } | undefined
  /** What of an action its process does not have; not asked where another is to run it. */
  readonly knowing?: Knowing | undefined
  /** What it has from the run that it goes on from. */
  readonly inherits?: Inheritance | undefined
  readonly parent?: Parent | undefined
  /** Invariants that are not looked at; for proofs. */
  readonly switched?: ReadonlySet<string> | undefined
}

/** Pure: what submitting a flow that was checked means. Throws InvalidInput before anything is written. */
export function submission(flow: Flow, clock: Pick<Clock, 'now' | 'uuid'>, known: Known = {}): Submission {
  const { context, plan, bindings = {}, approval = 'auto', chosen = {} } = flow
  const options = { ...flow.options, ...(known.session && { session: known.session.settled }) }
  const context_id = typeof context === 'string' ? context : context.context_id
  if (plan.context_id !== context_id)
    throw invalid('plan.context_id', 'reference.context', `is not the context ${context_id}`)
  const { plan_id } = plan
  const whole = typeof context === 'string' ? known.context : context
  const isSa = sa({ options })
  const broken = isSa ? saBreaches({ context: whole, plan }, known.switched) : []
  if (broken.length > 0) throw new InvalidInput('flow', breachProblems(broken))
  const [run_id, trace_id, confirm_id] = [
    chosen.run ?? clock.uuid(),
    chosen.trace ?? clock.uuid(),
    chosen.confirm ?? clock.uuid(),
  ]
  const bindingOfEach = bindSteps(plan.steps, bindings, known.resolve, clock.uuid, known.role)
  const done = known.inherits?.actions ?? []
  const lacking = known.knowing ? lackProblems(plan, bindingOfEach, done, options, known.knowing, clock) : []
  if (lacking.length > 0) throw new InvalidInput('flow', lacking)
  const added = [
    ...(typeof context === 'string' ? [] : partsOf('context', context)),
    ...(known.inherits?.collab ? partsOf('collab', known.inherits.collab) : []),
  ]
  const chunks = inCommits(added, plan, bindingOfEach, done)
  const gates = approvals({ plan_id, approval, run_id, confirm_id, clock })
  const started = approval === 'auto'
  const at = isoNow(clock)
  const record: Run = {
    run_id,
    plan_id,
    trace_id,
    ...(known.inherits && { rerun_of: known.inherits.run_id }),
    phase: started ? 'running' : 'waiting',
    options: options as JsonObject,
    spent: {},
    ...(started && { started_at: at }),
    ...(known.parent && { parent: known.parent }),
  }
  const run: Change[] = [
    {
      kind: 'node_add',
      node: 'trace',
      id: trace_id,
      data: {
        meta: META,
        trace_id,
        context_id,
        plan_id,
        root_span: { trace_id, span_id: clock.uuid(), context_id },
        status: started ? 'running' : 'pending',
        ...(started && { started_at: at }),
      },
    },
    { kind: 'node_add', node: 'run', id: run_id, data: record },
    ...endTimer(clock, record),
  ]
  const last = chunks.pop()!
  const events: Decided['events'] = []
  if (started && isSa) events.push(...saBeginning(whole!, plan, plan.steps.length))
  if (started && known.session)
    sessionStarts(known.session.collab, known.session.settled, plan_id, { changes: run, events })
  return {
    context_id,
    plan_id,
    run_id,
    commits: [
      ...chunks.map((changes) => ({ changes, events: [], reason: 'a plan is being submitted' })),
      {
        changes: [...last, ...gates, ...run],
        events,
        reason: started ? 'a plan was submitted and policy approved it' : 'a plan was submitted and waits for approval',
      },
    ],
  }
}

interface Asking {
  readonly plan_id: string
  readonly approval: ApprovalAsked
  readonly run_id: string
  readonly confirm_id: string
  readonly clock: Pick<Clock, 'now' | 'uuid'>
}

/** Proposed in any case; approved and started at once when policy may. */
function approvals({ plan_id, approval, run_id, confirm_id, clock }: Asking): readonly Change[] {
  const gate_id = clock.uuid()
  const ask = approval === 'auto' ? {} : approval
  const at = isoNow(clock)
  const expires = expiryAt(clock, ask)
  const gate: Birth<'gate'> = {
    gate_id,
    confirm_id,
    target: { kind: 'plan', id: plan_id },
    ...voicesOf(ask),
    ...(approval !== 'auto' && { expires_at: isoMicros(expires * 1000) }),
  }
  const proposed: Change[] = [
    { kind: 'node_update', node: 'plan', id: plan_id, set: { status: 'proposed' } },
    newConfirm(clock, {
      confirm_id,
      target_type: 'plan',
      target_id: plan_id,
      requested_by_role: ask.requested_by_role ?? 'runtime',
      ...(ask.reason !== undefined && { reason: ask.reason }),
    }),
    { kind: 'node_add', node: 'gate', id: gate_id, data: gate },
  ]
  if (approval !== 'auto')
    return [...proposed, newTimer(clock.uuid(), plan_id, { due: expires, purpose: 'expiry', target: confirm_id })]
  const decision_id = clock.uuid()
  return [
    ...proposed,
    {
      kind: 'node_add',
      node: 'decision',
      id: decision_id,
      owner: confirm_id,
      at: 0,
      data: { decision_id, status: 'approved', decided_by_role: 'policy', decided_at: at },
    },
    { kind: 'node_update', node: 'confirm', id: confirm_id, set: { status: 'approved' } },
    { kind: 'node_update', node: 'plan', id: plan_id, set: { status: 'approved' } },
    { kind: 'node_update', node: 'plan', id: plan_id, set: { status: 'in_progress' } },
    { kind: 'node_update', node: 'gate', id: gate_id, set: { used_by: run_id } },
  ]
}

const invalid = (path: string, rule: string, message: string) => new InvalidInput('flow', [{ path, rule, message }])

const bindingAdded = (data: Binding): NodeAdd<'binding'> => ({
  kind: 'node_add',
  node: 'binding',
  id: data.binding_id,
  data,
})

/**
 * What is to be there before its run, by commits. Where one cannot carry all of it, each may be the last to land: no step comes before what it waits
 * for, and whoever submits the rest finds the bindings by their ids.
 */
function inCommits(
  added: readonly Change[],
  plan: Plan,
  bindings: readonly Binding[],
  done: readonly Change[],
): Change[][] {
  const [head, ...steps] = partsOf('plan', plan)
  const asGiven = chunked([...added, head!, ...steps, ...bindings.map(bindingAdded), ...done])
  if (asGiven.length === 1) return asGiven
  const derived = bindings.map((data) => bindingAdded({ ...data, binding_id: derivedId(data.step_id) }))
  return chunked([...added, head!, ...inOrder(steps, plan.steps), ...derived, ...done])
}

function chunked(changes: readonly Change[]): Change[][] {
  const chunks: Change[][] = []
  let bytes = 0
  for (const change of changes) {
    const size = roughBytes((change as NodeAdd).data as Json)
    const chunk = chunks.at(-1)
    bytes += size
    if (chunk && chunk.length < PARTS_PER_COMMIT && bytes <= BYTES_PER_COMMIT) chunk.push(change)
    else {
      chunks.push([change])
      bytes = size
    }
  }
  return chunks
}

/** Each step after those it waits for. Steps on a circle come last; the graph names it. */
function inOrder(parts: readonly Change[], steps: Plan['steps']): readonly Change[] {
  const { order, circular } = dependenciesFirst(steps)
  return [...order, ...circular].map((at) => parts[at]!)
}

/** The same for the same step, whoever submits it. */
const derivedId = (step: string): string => uuidOf(`binding of ${step}`)
