import { setMaxListeners } from 'node:events'
import type { ChildFlow } from '../ael/adapter.ts'
import { aborted } from '../ael/failure.ts'
import type { ChildRequest, Hands } from '../ael/layer.ts'
import { InvalidInput, Refused } from '../protocol/errors.ts'
import { onAbort } from '../protocol/on-abort.ts'
import type { Change, Parent, Run } from '../psg/change.ts'
import { type Project, upToDate } from '../psg/project.ts'
import { land } from './land.ts'
import type { Flight, LiveRun } from './live.ts'
import type { Mine } from './mine.ts'
import { isToRest, type Placed, storeRequest, withParent } from './requests.ts'
import type { RunHandle } from './run.ts'
import type { Flow } from './submit.ts'
import { checkedFlow, chosenRun } from './submit-check.ts'
import { isUndecided } from './waiting-runs.ts'

export interface ChildrenOptions {
  readonly project: () => Project
  /** The runs that this process drives, by plan. */
  readonly live: ReadonlyMap<string, LiveRun>
  readonly mine: Mine | undefined
  /** Nothing new is begun any more. */
  readonly isClosing: () => boolean
  /** The run of that id, if it is there. */
  readonly known: (id: string) => Promise<RunHandle | undefined>
  readonly submit: (flow: Flow, parent: Parent) => Promise<RunHandle>
  readonly locate: (id: string) => Promise<Placed | undefined>
  readonly look: (context: string) => Promise<unknown>
}

/** Runs that actions submit, and that go with them. */
export interface Children {
  readonly child: NonNullable<Hands['child']>
  readonly cancel: LiveRun['cancelChild']
  /** Has the action ended that a run is a child of, and not by being completed? It may have been submitted a moment after its parent had let go. */
  isOrphan(run: Pick<Run, 'parent' | 'requested' | 'ending'>): Promise<boolean>
}

export function childRuns(options: ChildrenOptions): Children {
  const { live, mine, isClosing, look } = options

  async function child(given: ChildFlow, { run: place, action_id, execution_id, signal }: ChildRequest) {
    signal.throwIfAborted()
    setMaxListeners(0, signal) // each child of the action listens to it
    const run = place && live.get(place.plan_id)
    const flight = run?.flying.get(action_id)
    if (!run || flight?.execution_id !== execution_id || flight.compensates !== undefined)
      throw new Refused('the action does no step of a run that is under way here', 'submit the flow to the runtime')
    const flow = checkedFlow(given)
    const id = chosenRun(flow, `\`\${idempotency_key} …\``)
    return awaited(run, flight, signal, async () => {
      if (isClosing()) return untilAborted(signal)
      const begun = await begin(run, flight, flow, id, signal)
      return run.patiently(() => begun.result(signal), signal)
    })
  }

  async function begin(run: LiveRun, flight: Flight, flow: Flow, id: string, signal: AbortSignal): Promise<RunHandle> {
    const { action_id } = flight.action
    const parent: Parent = { run_id: run.id, step_id: flight.step, action_id }
    const ours = (found: RunHandle): RunHandle => {
      if (isChildOf(run, flight, found)) return found
      throw notOurs(id)
    }
    run.parents.add(action_id) // before it is stored: the run must not end meanwhile
    const there = await run.patiently(() => options.known(id), signal)
    if (there) ours(there)
    await record(run, flight, id)
    mine?.adopt(there?.plan_id ?? flow.plan.plan_id)
    if (there) {
      if (mine) void look(there.context_id)
      return there
    }
    const submitted = ours(await run.patiently(() => options.submit(flow, parent), signal))
    if (signal.aborted && (await isOrphan({ parent }))) await cancel(id, action_id)
    else await run.patiently(() => pauseWith(run, id), signal)
    return submitted
  }

  /** Whoever has asked to pause its parent may not have met it yet. */
  async function pauseWith(run: LiveRun, id: string): Promise<void> {
    await run.graph.refresh()
    const found = isToRest(run.graph.get('run', run.id)!.data) && (await options.locate(id))
    if (!found || isUndecided(found.graph, id)) return
    const by = { actor: 'runtime', reason: withParent(run.id, 'pause') }
    if ((await storeRequest(found, 'pause', by)) && !isClosing()) void look(found.graph.id)
  }

  const cancel: Children['cancel'] = async (id, action_id) => {
    const found = await options.locate(id)
    if (found?.run.data.parent?.action_id !== action_id) return
    mine?.adopt(found.run.data.plan_id)
    const by = { actor: 'runtime', reason: `what run ${found.run.data.parent.run_id} had submitted it for has ended` }
    // Not waited for: whoever looks after it may be who asks.
    if ((await storeRequest(found, 'cancel', by)) && !isClosing()) void look(found.graph.id)
  }

  const isOrphan: Children['isOrphan'] = async ({ parent, requested, ending }) => {
    if (!parent || requested === 'cancel' || ending) return false
    const where = await options.project().locate(parent.run_id, 'run')
    if (where?.kind !== 'run') return false // a copy may have left out what had ended
    const graph = await upToDate(options.project(), where)
    const status = graph.get('action', parent.action_id)?.data.status
    return status === 'failed' || status === 'cancelled'
  }

  return { child, cancel, isOrphan }
}

/** A turn of a session that is handed out again is another action under the same key, and finds what came of the children of the first. */
function isChildOf(run: LiveRun, { action }: Flight, { parent }: RunHandle): boolean {
  if (parent?.run_id !== run.id) return false
  return run.graph.get('action', parent.action_id)?.data.idempotency_key === action.idempotency_key
}

/** Its parent knows of a child before it is there, so that it can be found by whoever ends the parent. */
async function record(run: LiveRun, { action, execution_id }: Flight, child: string): Promise<void> {
  const { action_id, action_type } = action
  const { graph } = run
  if (graph.state.plan(run.plan)?.children.get(action_id)?.has(child)) return
  const child_id = graph.clock.uuid()
  const changes = (): readonly Change[] => {
    const { status, execution_id: underWay } = graph.get('action', action_id)!.data
    if (status !== 'running' || underWay !== execution_id || run.ending) throw aborted(action_type, run.abort.signal)
    return [{ kind: 'node_add', node: 'child', id: child_id, data: { child_id, action_id, run_id: child } }]
  }
  if (!(await land(run, { changes, events: [], reason: 'is to have a child' })))
    throw aborted(action_type, run.owner.lost)
}

/** Waits without its place, which its children may need, and without keeping whoever closes the runtime. */
async function awaited<T>(
  run: LiveRun,
  { action: { action_type }, execution_id }: Flight,
  signal: AbortSignal,
  wait: () => Promise<T>,
): Promise<T> {
  const { awaiting, layer } = run
  const { places } = layer
  awaiting.set(execution_id, (awaiting.get(execution_id) ?? 0) + 1)
  places?.leave(execution_id)
  run.wake()
  try {
    return await wait()
  } finally {
    const left = (awaiting.get(execution_id) ?? 0) - 1
    if (left >= 0) awaiting.set(execution_id, left) // or its attempt has ended without it
    if (left === 0) {
      await places?.enter(action_type, execution_id, signal)
      if (awaiting.get(execution_id) === 0) awaiting.delete(execution_id)
      else places?.leave(execution_id) // it waits again, or has ended
    }
  }
}

/** For who comes to this when nothing more is begun: it is cut off, and comes again under the same key. */
const untilAborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => onAbort(signal, () => reject(signal.reason)))

const notOurs = (id: string): InvalidInput => {
  const message = `names run ${id}, which is there and is no child of this action: make the id of its idempotency_key`
  return new InvalidInput('flow', [{ path: 'chosen.run', rule: 'parent', message }])
}
