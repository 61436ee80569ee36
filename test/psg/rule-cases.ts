import type { Change, Changes, CommitOptions, Gate, Kind } from '../../src/psg/change.ts'
import { confirmOf } from '../../src/psg/confirm.ts'
import type { GraphOptions } from '../../src/psg/graph.ts'
import { decide, endPlan, move, proposePlan, startPlan } from '../../src/psg/moves.ts'
import { nodeKey } from '../../src/psg/node.ts'
import {
  actionOf,
  add,
  bindingOf,
  by,
  confirmData,
  contextOf,
  decisionData,
  META,
  planOf,
  remove,
  runOf,
  set,
  TIME,
  traceOf,
  type World,
  withPlan,
} from './given.ts'

/** One way to break a rule, and its nearest neighbour that does not. */
export interface RuleCase {
  readonly rule: string
  readonly title: string
  /** The finer id under which it is told, where it has one. */
  readonly told?: string
  readonly options?: Omit<GraphOptions, 'clock'>
  readonly prepare: (world: World) => Promise<Attempts>
}
interface Attempts {
  readonly breaks: Attempt & { readonly node: string; readonly path: string }
  readonly passes: Attempt
}
interface Attempt {
  readonly changes: Changes
  readonly options?: Partial<CommitOptions>
}

const at = (kind: Kind, id: string, path = '') => ({ node: nodeKey(kind, id), path })

const dialogOf = (dialog_id: string, context_id: string, status: 'active' | 'paused' = 'active') => ({
  meta: META,
  dialog_id,
  context_id,
  status,
  messages: [],
})
const extensionOf = (extension_id: string, context_id: string) => ({
  meta: META,
  extension_id,
  context_id,
  name: 'lint',
  extension_type: 'capability' as const,
  version: '1.0.0',
  status: 'registered' as const,
})
const collabOf = (collab_id: string, context_id: string) => ({
  meta: META,
  collab_id,
  context_id,
  title: 'Pairing',
  purpose: 'to pair',
  mode: 'pair' as const,
  status: 'draft' as const,
  participants: [],
  created_at: TIME,
})
const networkOf = (network_id: string, context_id: string) => ({
  meta: META,
  network_id,
  context_id,
  name: 'net',
  topology_type: 'mesh' as const,
  status: 'draft' as const,
  nodes: [],
})
const message = { role: 'user' as const, content: 'hello', timestamp: TIME }
const segmentOf = (segment_id: string, more: object = {}) => ({
  segment_id,
  label: 'a piece of work',
  status: 'running' as const,
  ...more,
})
const endOf = (segment_id: string, status: 'completed' | 'skipped' = 'completed') => ({
  segment_id,
  status,
  finished_at: TIME,
})

async function withTrace({ graph, context, id }: World, status: 'pending' | 'running' = 'running') {
  const trace = id()
  await graph.commit([add('trace', trace, traceOf(trace, context, id(), { status }))], by)
  return trace
}

async function withSegment(world: World) {
  const trace = await withTrace(world)
  const segment = world.id()
  await world.graph.commit([add('segment', segment, segmentOf(segment), { owner: trace, at: 0 })], by)
  return { trace, segment }
}

/** A running plan with a run and its trace, so that it has an owner. */
async function withRun(world: World, phase: 'running' | 'waiting' = 'running') {
  const { graph, context, id } = world
  const plan = await withPlan(world, undefined, 'in_progress')
  const [run, trace] = [id(), id()]
  await graph.commit(
    [
      add('trace', trace, traceOf(trace, context, id(), { plan_id: plan.id })),
      add('run', run, runOf(run, plan.id, trace, phase)),
    ],
    by,
  )
  return { plan, run, trace }
}

/** An action of a running plan that waits for its Confirm. */
async function withGatedAction(world: World, more: object = {}) {
  const { graph, id } = world
  const plan = await withPlan(world, undefined, 'in_progress')
  const [action, confirm, gate] = [id(), id(), id()]
  await graph.commit(
    [
      move('step', plan.step('build'), 'in_progress'),
      add('action', action, actionOf(action, plan.step('build'), 'waiting')),
      add('confirm', confirm, confirmData(confirm, 'other', action)),
      add('gate', gate, {
        gate_id: gate,
        confirm_id: confirm,
        target: { kind: 'action', id: action },
        digest: 'sha256:00',
        needed: 1,
        ...more,
      }),
    ],
    by,
  )
  return { action, confirm, gate }
}

/** An action of a running plan with one attempt behind it, and the change that tells these attempts of it instead. */
async function withAttempts(world: World) {
  const { graph, id } = world
  const plan = await withPlan(world, undefined, 'in_progress')
  const action = id()
  const began = (n: number) => ({ segment_id: `attempt-${n}`, at: n, started_at: TIME })
  const ended = (n: number) => ({ status: 'failed' as const, at: n, finished_at: TIME, attributes: {} })
  const data = { ...actionOf(action, plan.step('build'), 'running'), began: [began(0)], ended: [ended(0)] }
  await graph.commit([move('step', plan.step('build'), 'in_progress'), add('action', action, data)], by)
  const attempts = (begins: readonly number[], ends: readonly number[]) =>
    set('action', action, { began: begins.map(began), ended: ends.map(ended) })
  return { plan: plan.id, action, attempts }
}

async function withLocked(world: World) {
  const { graph, context, id } = world
  const [extension, confirm] = [id(), id()]
  await graph.commit(
    [add('extension', extension, { ...extensionOf(extension, context), governance: { locked: true } })],
    by,
  )
  await graph.commit([add('confirm', confirm, confirmData(confirm, 'extension', extension))], by)
  await graph.commit(decide(graph, confirm, { status: 'approved', decided_by_role: 'owner' }), by)
  const governance = (ref: string) => ({ locked: true, lastConfirmRef: { id: ref, module: 'confirm' as const } })
  return { extension, confirm, governance }
}

export const RULE_CASES: readonly RuleCase[] = [
  // Folding
  {
    rule: 'id.unique',
    title: 'refuses an id that is taken in this context',
    async prepare(world) {
      const plan = await withPlan(world)
      const copy = planOf(world)
      const twin = add('step', plan.step('build'), copy.document.steps[0]!, { owner: plan.id })
      return { breaks: { changes: [twin], ...at('step', plan.step('build')) }, passes: { changes: copy.changes } }
    },
  },
  {
    rule: 'id.unique',
    title: 'refuses an id that was deleted, unless it comes back',
    async prepare(world) {
      const plan = await withPlan(world, { a: [], b: [] })
      const data = plan.document.steps[1]!
      await world.graph.commit([remove('step', plan.step('b'))], by)
      const again = { owner: plan.id, at: 1 }
      return {
        breaks: { changes: [add('step', plan.step('b'), data, again)], ...at('step', plan.step('b')) },
        passes: { changes: [add('step', plan.step('b'), data, { ...again, revived: true })] },
      }
    },
  },
  {
    rule: 'id.unique',
    title: 'refuses to add what the same commit deletes',
    async prepare(world) {
      const plan = await withPlan(world, { a: [], b: [] })
      const b = plan.step('b')
      return {
        breaks: {
          changes: [remove('step', b), add('step', b, plan.document.steps[1]!, { owner: plan.id })],
          ...at('step', b),
        },
        passes: { changes: [remove('step', b)] },
      }
    },
  },
  {
    rule: 'node.exists',
    title: 'refuses to change what is not there',
    async prepare(world) {
      const plan = await withPlan(world)
      const nobody = world.id()
      return {
        breaks: { changes: [set('plan', nobody, { title: 'x' })], ...at('plan', nobody) },
        passes: { changes: [set('plan', plan.id, { title: 'x' })] },
      }
    },
  },
  {
    rule: 'node.exists',
    title: 'refuses to delete what is not there',
    async prepare(world) {
      const plan = await withPlan(world, { a: [], b: [] })
      const nobody = world.id()
      return {
        breaks: { changes: [remove('step', nobody)], ...at('step', nobody) },
        passes: { changes: [remove('step', plan.step('b'))] },
      }
    },
  },
  {
    rule: 'node.exists',
    title: 'refuses a dependency of a step that is not there',
    async prepare(world) {
      const plan = await withPlan(world, { a: [], b: [] })
      const nobody = world.id()
      const to = plan.step('a')
      return {
        breaks: { changes: [{ kind: 'edge_add', from: nobody, to }], ...at('step', nobody) },
        passes: { changes: [{ kind: 'edge_add', from: plan.step('b'), to }] },
      }
    },
  },
  {
    rule: 'node.deleted',
    title: 'refuses to bring back what was never deleted',
    async prepare(world) {
      const plan = await withPlan(world)
      const step_id = world.id()
      const data = { step_id, description: 'more', status: 'pending' as const }
      return {
        breaks: { changes: [add('step', step_id, data, { owner: plan.id, revived: true })], ...at('step', step_id) },
        passes: { changes: [add('step', step_id, data, { owner: plan.id })] },
      }
    },
  },
  {
    rule: 'edge.unique',
    title: 'refuses a dependency that is there',
    async prepare(world) {
      const plan = await withPlan(world, { a: [], b: ['a'], c: [] })
      const [a, b, c] = [plan.step('a'), plan.step('b'), plan.step('c')]
      return {
        breaks: { changes: [{ kind: 'edge_add', from: b, to: a }], ...at('step', b) },
        passes: { changes: [{ kind: 'edge_add', from: c, to: a }] },
      }
    },
  },
  {
    rule: 'edge.exists',
    title: 'refuses to take away a dependency that is not there',
    async prepare(world) {
      const plan = await withPlan(world, { a: [], b: ['a'], c: [] })
      const [a, b, c] = [plan.step('a'), plan.step('b'), plan.step('c')]
      return {
        breaks: { changes: [{ kind: 'edge_delete', from: c, to: a }], ...at('step', c) },
        passes: { changes: [{ kind: 'edge_delete', from: b, to: a }] },
      }
    },
  },

  // Structure
  {
    rule: 'schema',
    title: 'refuses what does not fit the protocol’s shape',
    async prepare(world) {
      const plan = await withPlan(world)
      return {
        breaks: { changes: [set('plan', plan.id, { title: '' })], ...at('plan', plan.id, 'title') },
        passes: { changes: [set('plan', plan.id, { title: 'x' })] },
      }
    },
  },
  {
    rule: 'schema',
    title: 'refuses a status that a kind without a lifecycle does not know',
    async prepare(world) {
      const { graph, context, id } = world
      const [network, node] = [id(), id()]
      await graph.commit([add('network', network, networkOf(network, context))], by)
      const data = { node_id: node, kind: 'agent' as const, status: 'active' as const }
      await graph.commit([add('network_node', node, data, { owner: network })], by)
      return {
        breaks: { changes: [set('network_node', node, { status: 'asleep' })], ...at('network_node', node, 'status') },
        passes: { changes: [set('network_node', node, { status: 'degraded' })] },
      }
    },
  },
  {
    rule: 'schema',
    title: 'refuses a status on what has none',
    options: { project_id: '00000000-0000-4000-8000-00000000abcd' },
    async prepare(world) {
      const { graph, context, id } = world
      const collab = id()
      await graph.commit(
        [
          add('collab', collab, collabOf(collab, context)),
          add('participant', `${collab}/0`, { participant_id: 'p', kind: 'agent' }, { owner: collab, at: 0 }),
        ],
        by,
      )
      const part = `${collab}/0`
      return {
        breaks: { changes: [set('participant', part, { status: 'here' })], ...at('participant', part, 'status') },
        passes: { changes: [set('participant', part, { display_name: 'P' })] },
      }
    },
  },
  {
    rule: 'schema',
    title: 'refuses a status that an action does not know',
    async prepare(world) {
      const { action } = await withGatedAction(world)
      return {
        breaks: { changes: [set('action', action, { status: 'asleep' })], ...at('action', action, 'status') },
        passes: { changes: [set('action', action, { status: 'cancelled' })] },
      }
    },
  },
  {
    rule: 'schema',
    title: 'refuses a child of an action that nobody could look for',
    async prepare(world) {
      const { action } = await withGatedAction(world)
      const child = world.id()
      const submitted = (run_id: unknown) =>
        add('child', child, { child_id: child, action_id: action, run_id: run_id as string })
      return {
        breaks: { changes: [submitted(['all'])], ...at('child', child, 'run_id') },
        passes: { changes: [submitted(world.id())] },
      }
    },
  },
  {
    rule: 'schema',
    title: 'refuses an action that was carried over from nowhere',
    async prepare(world) {
      const { action } = await withGatedAction(world)
      const from = { run_id: world.id(), action_id: world.id() }
      return {
        breaks: { changes: [set('action', action, { carried_from: {} })], ...at('action', action, 'carried_from') },
        passes: { changes: [set('action', action, { carried_from: from })] },
      }
    },
  },
  {
    rule: 'schema',
    title: 'refuses a gate that nobody could pass',
    async prepare(world) {
      const { id, context } = world
      const [confirm, gate] = [id(), id()]
      const data = (needed: number) => ({
        gate_id: gate,
        confirm_id: confirm,
        target: { kind: 'other' as const, id: context },
        digest: 'sha256:00' as const,
        needed,
      })
      const asked = add('confirm', confirm, confirmData(confirm, 'context', context))
      return {
        breaks: { changes: [asked, add('gate', gate, data(0))], ...at('gate', gate, 'needed') },
        passes: { changes: [asked, add('gate', gate, data(1))] },
      }
    },
  },
  {
    rule: 'schema',
    title: 'refuses a head that brings its parts along',
    async prepare(world) {
      const plan = planOf(world)
      const [head, ...steps] = plan.changes
      const full = add('plan', plan.id, plan.document as never)
      return {
        breaks: { changes: [full, ...steps], ...at('plan', plan.id, 'steps') },
        passes: { changes: [head!, ...steps] },
      }
    },
  },
  {
    rule: 'id.fixed',
    title: 'refuses another id',
    async prepare(world) {
      const plan = await withPlan(world)
      return {
        breaks: { changes: [set('plan', plan.id, { plan_id: world.id() })], ...at('plan', plan.id, 'plan_id') },
        passes: { changes: [set('plan', plan.id, { plan_id: plan.id })] },
      }
    },
  },
  {
    rule: 'id.fixed',
    title: 'refuses to move a node to another owner of its reference',
    async prepare(world) {
      const plan = await withPlan(world)
      const binding = world.id()
      await world.graph.commit([add('binding', binding, bindingOf(plan.step('build'), binding))], by)
      return {
        breaks: {
          changes: [set('binding', binding, { step_id: plan.step('test') })],
          ...at('binding', binding, 'step_id'),
        },
        passes: { changes: [set('binding', binding, { params: { n: 1 } })] },
      }
    },
  },
  {
    rule: 'id.fixed',
    title: 'refuses to change what an approval is bound to',
    async prepare(world) {
      const { gate } = await withGatedAction(world)
      return {
        breaks: { changes: [set('gate', gate, { digest: 'sha256:11' })], ...at('gate', gate, 'digest') },
        passes: {
          changes: [
            set('gate', gate, { target: { id: world.graph.get('gate', gate)!.data.target.id, kind: 'action' } }),
          ],
        },
      }
    },
  },
  {
    rule: 'id.fixed',
    title: 'refuses to move a timer, by whose time it is found',
    async prepare(world) {
      const timer = world.id()
      const data = { timer_id: timer, due: TIME, purpose: 'wait' as const, target: 'x' }
      await world.graph.commit([add('timer', timer, data)], by)
      return {
        breaks: {
          changes: [set('timer', timer, { due: '2027-01-01T00:00:00.000000Z' })],
          ...at('timer', timer, 'due'),
        },
        passes: { changes: [set('timer', timer, { fired: true })] },
      }
    },
  },
  {
    rule: 'reference.resolves',
    title: 'refuses a reference to nothing',
    async prepare(world) {
      const plan = await withPlan(world)
      const binding = world.id()
      return {
        breaks: {
          changes: [add('binding', binding, bindingOf(world.id(), binding))],
          ...at('binding', binding, 'step_id'),
        },
        passes: { changes: [add('binding', binding, bindingOf(plan.step('build'), binding))] },
      }
    },
  },
  {
    rule: 'reference.resolves',
    title: 'refuses a dependency on nothing',
    async prepare(world) {
      const plan = await withPlan(world, { a: [], b: [] })
      const b = plan.step('b')
      return {
        breaks: { changes: [{ kind: 'edge_add', from: b, to: world.id() }], ...at('step', b, 'dependencies[0]') },
        passes: { changes: [{ kind: 'edge_add', from: b, to: plan.step('a') }] },
      }
    },
  },
  {
    rule: 'reference.resolves',
    title: 'refuses a part without its owner',
    async prepare(world) {
      const plan = await withPlan(world)
      const step_id = world.id()
      const data = { step_id, description: 'more', status: 'pending' as const }
      return {
        breaks: { changes: [add('step', step_id, data, { owner: world.id() })], ...at('step', step_id) },
        passes: { changes: [add('step', step_id, data, { owner: plan.id })] },
      }
    },
  },
  {
    rule: 'reference.resolves',
    title: 'refuses a governing Confirm that is not there',
    async prepare(world) {
      const { graph, context, id } = world
      const [extension, confirm] = [id(), id()]
      await graph.commit([add('extension', extension, extensionOf(extension, context))], by)
      await graph.commit([add('confirm', confirm, confirmData(confirm, 'extension', extension))], by)
      const governed = (ref: string) => ({ governance: { lastConfirmRef: { id: ref, module: 'confirm' } } })
      return {
        breaks: {
          changes: [set('extension', extension, governed(id()))],
          ...at('extension', extension, 'governance.lastConfirmRef.id'),
        },
        passes: { changes: [set('extension', extension, governed(confirm))] },
      }
    },
  },
  {
    rule: 'reference.role',
    title: 'refuses an unknown role in strict mode',
    options: { roles: { has: (name) => name === 'builder', refresh: async () => false } },
    async prepare(world) {
      const plan = await withPlan(world)
      const build = plan.step('build')
      return {
        breaks: { changes: [set('step', build, { agent_role: 'stranger' })], ...at('step', build, 'agent_role') },
        passes: { changes: [set('step', build, { agent_role: 'builder' })] },
      }
    },
  },
  {
    rule: 'dependency.same_plan',
    title: 'refuses a dependency on a step of another plan',
    async prepare(world) {
      const plan = await withPlan(world, { a: [], b: [] })
      const other = await withPlan(world)
      const b = plan.step('b')
      return {
        breaks: {
          changes: [{ kind: 'edge_add', from: b, to: other.step('build') }],
          ...at('step', b, 'dependencies[0]'),
        },
        passes: { changes: [{ kind: 'edge_add', from: b, to: plan.step('a') }] },
      }
    },
  },
  {
    rule: 'plan.acyclic',
    title: 'refuses a cycle that an edge closes',
    async prepare(world) {
      const plan = await withPlan(world, { a: [], b: ['a'], c: ['b'], d: [] })
      const [a, c, d] = [plan.step('a'), plan.step('c'), plan.step('d')]
      return {
        breaks: { changes: [{ kind: 'edge_add', from: a, to: c }], ...at('step', a, 'dependencies') },
        passes: { changes: [{ kind: 'edge_add', from: a, to: d }] },
      }
    },
  },
  {
    rule: 'plan.acyclic',
    title: 'refuses a new plan that goes round',
    async prepare(world) {
      const round = planOf(world, { a: ['b'], b: ['a'] })
      return {
        breaks: { changes: round.changes, ...at('step', round.step('a'), 'dependencies') },
        passes: { changes: planOf(world, { a: [], b: ['a'] }).changes },
      }
    },
  },
  {
    rule: 'plan.has_steps',
    title: 'refuses a plan without a step',
    async prepare(world) {
      const plan = planOf(world, { a: [] })
      return {
        breaks: { changes: [plan.changes[0]!], ...at('plan', plan.id, 'steps') },
        passes: { changes: plan.changes },
      }
    },
  },
  {
    rule: 'plan.has_steps',
    title: 'refuses to take away the last step',
    async prepare(world) {
      const plan = await withPlan(world, { a: [], b: [] })
      const [a, b] = [plan.step('a'), plan.step('b')]
      return {
        breaks: { changes: [remove('step', a), remove('step', b)], ...at('step', a) },
        passes: { changes: [remove('plan', plan.id), remove('step', a), remove('step', b)] },
      }
    },
  },
  {
    rule: 'plan.has_steps',
    title: 'refuses a session without participants, also later',
    async prepare(world) {
      const { graph, context, id } = world
      const collab = id()
      const person = (n: number) =>
        add('participant', `${collab}/${n}`, { participant_id: `p${n}`, kind: 'agent' }, { owner: collab, at: n })
      await graph.commit([add('collab', collab, collabOf(collab, context)), person(0), person(1)], by)
      const both = [remove('participant', `${collab}/0`), remove('participant', `${collab}/1`)]
      return {
        breaks: { changes: both, ...at('participant', `${collab}/0`) },
        passes: { changes: [...both, person(2)] },
      }
    },
  },
  {
    rule: 'trace.root_span',
    title: 'refuses the root span of another trace',
    async prepare({ context, id }) {
      const trace = id()
      const span = (trace_id: string) => ({ root_span: { trace_id, span_id: id(), context_id: context } })
      return {
        breaks: {
          changes: [add('trace', trace, traceOf(trace, context, id(), span(id())))],
          ...at('trace', trace, 'root_span.trace_id'),
        },
        passes: { changes: [add('trace', trace, traceOf(trace, context, id(), span(trace)))] },
      }
    },
  },
  {
    rule: 'trace.root_span',
    title: 'refuses a root span of another context',
    async prepare({ context, id }) {
      const trace = id()
      const span = (context_id: string) => ({ root_span: { trace_id: trace, span_id: id(), context_id } })
      return {
        breaks: {
          changes: [add('trace', trace, traceOf(trace, context, id(), span(id())))],
          ...at('trace', trace, 'root_span.context_id'),
        },
        passes: { changes: [add('trace', trace, traceOf(trace, context, id(), span(context)))] },
      }
    },
  },
  {
    rule: 'segment.same_trace',
    title: 'refuses a parent in another trace',
    async prepare(world) {
      const { segment, trace } = await withSegment(world)
      const other = await withTrace(world)
      const child = world.id()
      const data = segmentOf(child, { parent_segment_id: segment })
      return {
        breaks: {
          changes: [add('segment', child, data, { owner: other })],
          ...at('segment', child, 'parent_segment_id'),
        },
        passes: { changes: [add('segment', child, data, { owner: trace })] },
      }
    },
  },
  {
    rule: 'segment.same_trace',
    title: 'refuses an end in another trace',
    async prepare(world) {
      const { segment, trace } = await withSegment(world)
      const other = await withTrace(world)
      const end = (owner: string) => add('segment_end', segment, endOf(segment), { owner })
      return {
        breaks: { changes: [end(other)], ...at('segment_end', segment, 'segment_id') },
        passes: { changes: [end(trace)] },
      }
    },
  },
  {
    rule: 'graph.place',
    title: 'refuses a role in a context’s graph',
    async prepare(world) {
      const role = world.id()
      const plan = planOf(world)
      return {
        breaks: { changes: [add('role', role, { meta: META, role_id: role, name: 'r' })], ...at('role', role) },
        passes: { changes: plan.changes },
      }
    },
  },
  {
    rule: 'graph.place',
    title: 'refuses a second context',
    async prepare(world) {
      const other = world.id()
      return {
        breaks: { changes: [add('context', other, contextOf(other))], ...at('context', other, 'context_id') },
        passes: { changes: [set('context', world.context, { title: 'Another title' })] },
      }
    },
  },
  {
    rule: 'module.area',
    title: 'refuses what belongs to another module',
    async prepare(world) {
      const plan = planOf(world)
      return {
        breaks: { changes: plan.changes, options: { module: 'dialog' }, ...at('plan', plan.id) },
        passes: { changes: plan.changes, options: { module: 'plan' } },
      }
    },
  },
  {
    rule: 'module.area',
    title: 'lets the plan module withdraw a question about a plan only by ending that plan',
    async prepare(world) {
      const plan = await withPlan(world, undefined, 'proposed')
      const { id } = confirmOf(world.graph, plan.id)!
      const options = { module: 'plan' }
      return {
        breaks: { changes: [move('confirm', id, 'cancelled')], options, ...at('confirm', id) },
        passes: { changes: endPlan(world.graph, plan.id, 'cancelled'), options },
      }
    },
  },

  // Lifecycle
  {
    rule: 'birth',
    title: 'refuses a new object in the middle of its life',
    async prepare(world) {
      const started = planOf(world, undefined, { status: 'in_progress' })
      return {
        breaks: { changes: started.changes, ...at('plan', started.id, 'status') },
        passes: { changes: planOf(world).changes },
      }
    },
  },
  {
    rule: 'birth',
    title: 'refuses to let something come back elsewhere than where it stood',
    async prepare(world) {
      const { graph, context, id } = world
      const dialog = id()
      await graph.commit([add('dialog', dialog, dialogOf(dialog, context))], by)
      await graph.commit([move('dialog', dialog, 'paused')], by)
      await graph.commit([remove('dialog', dialog)], by)
      const back = (status: 'active' | 'paused') =>
        add('dialog', dialog, dialogOf(dialog, context, status), { revived: true })
      return {
        breaks: { changes: [back('active')], ...at('dialog', dialog, 'status') },
        passes: { changes: [back('paused')] },
      }
    },
  },
  {
    rule: 'lifecycle',
    told: 'lifecycle.plan.draft->in_progress',
    title: 'refuses a move that the lifecycle does not know',
    async prepare(world) {
      const plan = await withPlan(world)
      return {
        breaks: { changes: [move('plan', plan.id, 'in_progress')], ...at('plan', plan.id, 'status') },
        passes: { changes: [move('plan', plan.id, 'proposed')] },
      }
    },
  },
  {
    rule: 'lifecycle',
    title: 'refuses a status that nobody knows',
    async prepare(world) {
      const plan = await withPlan(world)
      return {
        breaks: { changes: [move('plan', plan.id, 'tired')], ...at('plan', plan.id, 'status') },
        passes: { changes: [move('plan', plan.id, 'proposed')] },
      }
    },
  },
  {
    rule: 'lifecycle',
    told: 'lifecycle.plan.draft->approved',
    title: 'refuses a wrong station on a way of several',
    async prepare(world) {
      const plan = await withPlan(world)
      const detour = [move('plan', plan.id, 'approved'), move('plan', plan.id, 'cancelled')]
      const [a, b, c] = ['build', 'test', 'ship'].map((name) => move('step', plan.step(name), 'skipped'))
      const steps = [a!, b!, c!]
      return {
        breaks: { changes: [...detour, ...steps], ...at('plan', plan.id, 'status') },
        passes: { changes: [move('plan', plan.id, 'proposed'), move('plan', plan.id, 'cancelled'), ...steps] },
      }
    },
  },
  {
    rule: 'segment.end',
    title: 'refuses an end that the start does not allow',
    async prepare(world) {
      const { segment, trace } = await withSegment(world)
      const end = (status: 'completed' | 'skipped') =>
        add('segment_end', segment, endOf(segment, status), { owner: trace })
      return {
        breaks: { changes: [end('skipped')], ...at('segment_end', segment, 'status') },
        passes: { changes: [end('completed')] },
      }
    },
  },
  {
    rule: 'trace.ends_segments',
    title: 'refuses to end a trace and leave a segment open',
    async prepare(world) {
      const { segment, trace } = await withSegment(world)
      const ends = move('trace', trace, 'completed')
      const end = add('segment_end', segment, endOf(segment), { owner: trace })
      return { breaks: { changes: [ends], ...at('trace', trace, 'status') }, passes: { changes: [end, ends] } }
    },
  },
  {
    rule: 'dialog.active',
    title: 'refuses a message to a dialog that is paused',
    async prepare({ graph, context, id }) {
      const dialog = id()
      await graph.commit([add('dialog', dialog, dialogOf(dialog, context))], by)
      await graph.commit([move('dialog', dialog, 'paused')], by)
      const say = add('message', `${dialog}/0`, message, { owner: dialog, at: 0 })
      return {
        breaks: { changes: [say], ...at('message', `${dialog}/0`) },
        passes: { changes: [move('dialog', dialog, 'active'), say] },
      }
    },
  },
  {
    rule: 'context.open',
    title: 'refuses to begin anything in an archived context',
    async prepare(world) {
      const [plan, old] = [planOf(world), planOf(world)]
      await world.graph.commit([move('context', world.context, 'archived')], by)
      const imported = old.changes.map((change) => ({ ...change, imported: true })) as Changes
      return {
        breaks: { changes: plan.changes, ...at('plan', plan.id, 'context_id') },
        passes: { changes: imported },
      }
    },
  },
  {
    rule: 'guard.plan.start',
    title: 'refuses to start a plan in a context that is not active',
    async prepare(world) {
      const { graph, context } = world
      const plan = await withPlan(world, undefined, 'approved')
      await graph.commit([move('context', context, 'suspended')], by)
      const start = startPlan(graph, plan.id, 'a run')
      return {
        breaks: { changes: start, ...at('plan', plan.id, 'status') },
        passes: { changes: [move('context', context, 'active'), ...start] },
      }
    },
  },
  {
    rule: 'guard.plan.completed',
    title: 'refuses to complete a plan with a failed step',
    async prepare(world) {
      const { graph } = world
      const plan = await withPlan(world, { a: [], b: [] }, 'in_progress')
      await graph.commit([move('step', plan.step('a'), 'in_progress')], by)
      await graph.commit([move('step', plan.step('a'), 'failed')], by)
      return {
        breaks: { changes: endPlan(graph, plan.id, 'completed'), ...at('plan', plan.id, 'status') },
        passes: { changes: endPlan(graph, plan.id, 'failed') },
      }
    },
  },
  {
    rule: 'plan.ends_steps',
    title: 'refuses to end a plan and leave its steps open',
    async prepare(world) {
      const plan = await withPlan(world)
      return {
        breaks: { changes: [move('plan', plan.id, 'cancelled')], ...at('plan', plan.id, 'status') },
        passes: { changes: endPlan(world.graph, plan.id, 'cancelled') },
      }
    },
  },
  {
    rule: 'guard.step.plan_running',
    title: 'refuses to start a step of a plan that does not run',
    async prepare(world) {
      const { graph } = world
      const plan = await withPlan(world, undefined, 'approved')
      const build = move('step', plan.step('build'), 'in_progress')
      return {
        breaks: { changes: [build], ...at('step', plan.step('build'), 'status') },
        passes: { changes: [...startPlan(graph, plan.id, 'a run'), build] },
      }
    },
  },
  {
    rule: 'guard.step.plan_running',
    title: 'refuses to resume a plan that was running when it was imported',
    async prepare(world) {
      const imported = planOf(world, undefined, { status: 'in_progress' })
      const started = await withPlan(world, undefined, 'in_progress')
      const changes = imported.changes.map((change) => ({ ...change, imported: true })) as Changes
      await world.graph.commit(changes, by)
      const build = imported.step('build')
      return {
        breaks: { changes: [move('step', build, 'in_progress')], ...at('step', build, 'status') },
        passes: { changes: [move('step', started.step('build'), 'in_progress')] },
      }
    },
  },
  {
    rule: 'guard.step.context',
    title: 'refuses to start a step while its context is suspended',
    async prepare(world) {
      const plan = await withPlan(world, { a: [], b: [] }, 'in_progress')
      const [a, b] = [plan.step('a'), plan.step('b')]
      await world.graph.commit([move('step', a, 'in_progress')], by)
      await world.graph.commit([move('context', world.context, 'suspended')], by)
      return {
        breaks: { changes: [move('step', a, 'completed'), move('step', b, 'in_progress')], ...at('step', b, 'status') },
        passes: { changes: [move('step', a, 'completed')] },
      }
    },
  },
  {
    rule: 'guard.step.dependencies',
    title: 'refuses to start a step before those it waits for have ended',
    async prepare(world) {
      const plan = await withPlan(world, { a: [], b: ['a'] }, 'in_progress')
      const [a, b] = [plan.step('a'), plan.step('b')]
      return {
        breaks: { changes: [move('step', b, 'in_progress')], ...at('step', b, 'dependencies[0]') },
        passes: { changes: [move('step', a, 'skipped'), move('step', b, 'in_progress')] },
      }
    },
  },
  {
    rule: 'guard.step.blocked',
    title: 'refuses to block a step while nothing that it waits for has failed',
    async prepare(world) {
      const plan = await withPlan(world, { a: [], b: ['a'] }, 'in_progress')
      const [a, b] = [plan.step('a'), plan.step('b')]
      await world.graph.commit([move('step', a, 'in_progress')], by)
      return {
        breaks: { changes: [move('step', a, 'completed'), move('step', b, 'blocked')], ...at('step', b, 'status') },
        passes: { changes: [move('step', a, 'failed'), move('step', b, 'blocked')] },
      }
    },
  },
  ...(['waiting', 'running', 'paused', 'undoing'] as const).map((phase) => ({
    rule: 'run.single',
    title: `refuses a second run of a plan while the first is ${phase}`,
    async prepare(world: World) {
      const { plan, run, trace } = await withRun(world)
      await world.graph.commit([set('run', run, { phase })], { ...by, fence: 0 })
      const second = add('run', world.id(), {} as never)
      const id = (second as { id: string }).id
      const changes = [{ ...second, data: runOf(id, plan.id, trace) }] as Changes
      return {
        breaks: { changes, options: { fence: 0 }, ...at('run', id, 'plan_id') },
        passes: { changes: [set('run', run, { phase: 'ended' }), ...changes], options: { fence: 0 } },
      }
    },
  })),
  {
    rule: 'owner.fence',
    title: 'refuses to change a run’s state without its owner’s token',
    async prepare(world) {
      const { plan } = await withRun(world)
      const build = plan.step('build')
      const changes = [move('step', build, 'in_progress')]
      return { breaks: { changes, ...at('step', build) }, passes: { changes, options: { fence: 0 } } }
    },
  },
  {
    rule: 'owner.fence',
    title: 'refuses to end the trace of a run, but not one that others keep of its plan',
    async prepare(world) {
      const { graph, context, id } = world
      const { plan, trace } = await withRun(world)
      const other = id()
      await graph.commit([add('trace', other, traceOf(other, context, id(), { plan_id: plan.id }))], by)
      return {
        breaks: { changes: [move('trace', trace, 'cancelled')], ...at('trace', trace) },
        passes: { changes: [move('trace', other, 'cancelled')] },
      }
    },
  },
  {
    rule: 'owner.fence',
    title: 'refuses to end the trace of a run that waits, unless that ends with it',
    async prepare(world) {
      const { run, trace } = await withRun(world, 'waiting')
      const ends = move('trace', trace, 'cancelled')
      return {
        breaks: { changes: [ends], ...at('trace', trace) },
        passes: { changes: [ends, set('run', run, { phase: 'ended' })] },
      }
    },
  },
  {
    rule: 'owner.fence',
    title: 'refuses to change a run itself, but lets anybody ask',
    async prepare(world) {
      const { run } = await withRun(world)
      return {
        breaks: { changes: [set('run', run, { phase: 'paused' })], ...at('run', run) },
        passes: { changes: [set('run', run, { requested: 'pause' })] },
      }
    },
  },

  // Approval
  {
    rule: 'approval.proposed',
    title: 'refuses a gate for a plan that is not being proposed',
    async prepare(world) {
      const { graph } = world
      const plan = await withPlan(world)
      const proposing = proposePlan(graph, plan.id, { requested_by_role: 'planner' })
      const gate = (proposing[2] as { id: string }).id
      return {
        breaks: { changes: proposing.slice(1), ...at('gate', gate, 'target') },
        passes: { changes: proposing },
      }
    },
  },
  {
    rule: 'approval.proposed',
    title: 'refuses a gate that is bound to another plan than the one proposed',
    async prepare(world) {
      const { graph } = world
      const plan = await withPlan(world)
      const proposing = proposePlan(graph, plan.id, { requested_by_role: 'planner' })
      const gate = (proposing[2] as { id: string }).id
      return {
        breaks: {
          changes: [set('step', plan.step('build'), { description: 'something else' }), ...proposing],
          ...at('gate', gate, 'digest'),
        },
        passes: { changes: proposing },
      }
    },
  },
  {
    rule: 'schema',
    title: 'refuses a gate without a digest, unless it is one of a plan that is there',
    async prepare(world) {
      const { graph, id } = world
      const plan = await withPlan(world)
      const proposing = proposePlan(graph, plan.id, { requested_by_role: 'planner' })
      const { id: gate, data } = proposing[2] as { id: string; data: Gate }
      const { digest: _, ...unbound } = data
      const about = (target: Gate['target']) => [...proposing.slice(0, 2), add('gate', gate, { ...unbound, target })]
      return {
        breaks: { changes: about({ kind: 'plan', id: id() }), ...at('gate', gate, 'digest') },
        passes: { changes: about({ kind: 'plan', id: plan.id }) },
      }
    },
  },
  {
    rule: 'approval.proposed',
    title: 'refuses a gate on a Confirm that asks about something else',
    async prepare(world) {
      const { graph, id } = world
      const plan = await withPlan(world)
      const [confirm, gate] = [id(), id()]
      const asked = add('confirm', confirm, confirmData(confirm, 'context', world.context))
      const gated = (targetId: string) =>
        add('gate', gate, {
          gate_id: gate,
          confirm_id: confirm,
          target: { kind: 'other', id: targetId },
          digest: 'sha256:00',
          needed: 1,
        })
      await graph.commit([asked], by)
      return {
        breaks: { changes: [gated(plan.id)], ...at('gate', gate, 'target') },
        passes: { changes: [gated(world.context)] },
      }
    },
  },
  {
    rule: 'approval.used',
    title: 'refuses to use an approval twice',
    async prepare(world) {
      const { gate } = await withGatedAction(world)
      await world.graph.commit([set('gate', gate, { used_by: 'one' })], by)
      return {
        breaks: { changes: [set('gate', gate, { used_by: 'two' })], ...at('gate', gate, 'used_by') },
        passes: { changes: [set('gate', gate, { used_by: 'one' })] },
      }
    },
  },
  {
    rule: 'approval.used',
    title: 'refuses to make a used approval fresh again',
    async prepare(world) {
      const { gate } = await withGatedAction(world)
      await world.graph.commit([set('gate', gate, { used_by: 'one' })], by)
      return {
        breaks: { changes: [set('gate', gate, { used_by: undefined })], ...at('gate', gate, 'used_by') },
        passes: { changes: [set('gate', gate, { used_by: 'one' })] },
      }
    },
  },
  {
    rule: 'guard.plan.approved',
    title: 'refuses to approve a plan without an approved Confirm',
    async prepare(world) {
      const { graph } = world
      const plan = await withPlan(world, undefined, 'proposed')
      const confirm = confirmOf(graph, plan.id)!.id
      return {
        breaks: { changes: [move('plan', plan.id, 'approved')], ...at('plan', plan.id, 'status') },
        passes: { changes: decide(graph, confirm, { status: 'approved', decided_by_role: 'owner' }) },
      }
    },
  },
  {
    rule: 'approval.bound',
    title: 'refuses to start a plan that does not use its approval up',
    async prepare(world) {
      const plan = await withPlan(world, undefined, 'approved')
      return {
        breaks: { changes: [move('plan', plan.id, 'in_progress')], ...at('plan', plan.id, 'status') },
        passes: { changes: startPlan(world.graph, plan.id, 'a run') },
      }
    },
  },
  {
    rule: 'approval.bound',
    title: 'refuses to start a plan that is not the one approved',
    options: { switched: new Set(['plan.frozen']) },
    async prepare(world) {
      const plan = await withPlan(world, undefined, 'approved')
      const start = startPlan(world.graph, plan.id, 'a run')
      return {
        breaks: {
          changes: [set('step', plan.step('build'), { description: 'something else' }), ...start],
          ...at('plan', plan.id, 'status'),
        },
        passes: { changes: start },
      }
    },
  },
  {
    rule: 'approval.bound',
    title: 'refuses to start a plan that was imported as approved',
    async prepare(world) {
      const { graph } = world
      const imported = planOf(world, undefined, { status: 'approved' })
      const approved = await withPlan(world, undefined, 'approved')
      await graph.commit(imported.changes.map((change) => ({ ...change, imported: true })) as Changes, by)
      return {
        breaks: { changes: startPlan(graph, imported.id, 'a run'), ...at('plan', imported.id, 'status') },
        passes: { changes: startPlan(graph, approved.id, 'a run') },
      }
    },
  },
  {
    rule: 'approval.action',
    title: 'refuses to run an action before its Confirm is approved',
    async prepare(world) {
      const { graph } = world
      const { action, confirm, gate } = await withGatedAction(world)
      const run = [set('action', action, { status: 'running' }), set('gate', gate, { used_by: 'it' })]
      return {
        breaks: { changes: run, ...at('action', action, 'status') },
        passes: {
          changes: [...decide(graph, confirm, { status: 'approved', decided_by_role: 'owner' }), ...run],
        },
      }
    },
  },
  {
    rule: 'approval.action',
    title: 'refuses to run an action that does not use its approval up',
    async prepare(world) {
      const { graph } = world
      const { action, confirm, gate } = await withGatedAction(world)
      await graph.commit(decide(graph, confirm, { status: 'approved', decided_by_role: 'owner' }), by)
      const run = set('action', action, { status: 'running' })
      return {
        breaks: { changes: [run], ...at('action', action, 'status') },
        passes: { changes: [run, set('gate', gate, { used_by: 'it' })] },
      }
    },
  },
  {
    rule: 'approval.action',
    title: 'refuses to go on before there is an answer about what the action comes to on its way, be it a no',
    async prepare(world) {
      const { graph, id } = world
      const { action, confirm } = await withGatedAction(world, { shows: { action_id: id() } })
      const run = set('action', action, { status: 'running' })
      return {
        breaks: { changes: [run], ...at('action', action, 'status') },
        passes: { changes: [...decide(graph, confirm, { status: 'rejected', decided_by_role: 'owner' }), run] },
      }
    },
  },
  {
    rule: 'approval.action',
    title: 'refuses to run an action that was itself turned down',
    async prepare(world) {
      const { graph, id } = world
      const own = await withGatedAction(world)
      const other = await withGatedAction(world, { shows: { action_id: id() } })
      for (const { confirm } of [own, other])
        await graph.commit(decide(graph, confirm, { status: 'rejected', decided_by_role: 'owner' }), by)
      const run = ({ action }: typeof own) => set('action', action, { status: 'running' })
      return {
        breaks: { changes: [run(own)], ...at('action', own.action, 'status') },
        passes: { changes: [run(other)] },
      }
    },
  },
  {
    rule: 'confirm.verdict',
    title: 'refuses a status that the decisions do not bear out',
    async prepare(world) {
      const { graph } = world
      const plan = await withPlan(world, undefined, 'proposed')
      const confirm = confirmOf(graph, plan.id)!.id
      return {
        breaks: { changes: [move('confirm', confirm, 'approved')], ...at('confirm', confirm, 'status') },
        passes: { changes: [move('confirm', confirm, 'cancelled')] },
      }
    },
  },
  {
    rule: 'confirm.verdict',
    title: 'refuses a decision that the Confirm does not follow',
    async prepare(world) {
      const { graph, id } = world
      const plan = await withPlan(world, undefined, 'proposed')
      const confirm = confirmOf(graph, plan.id)!.id
      const decision = id()
      const decided = add('decision', decision, decisionData(decision), { owner: confirm, at: 0 })
      return {
        breaks: { changes: [decided], ...at('decision', decision, 'status') },
        passes: { changes: [decided, move('confirm', confirm, 'approved')] },
      }
    },
  },
  {
    rule: 'confirm.verdict',
    title: 'refuses to reopen a rejected Confirm unless its plan is proposed again',
    async prepare(world) {
      const { graph } = world
      const plan = await withPlan(world, undefined, 'proposed')
      const confirm = confirmOf(graph, plan.id)!.id
      await graph.commit(decide(graph, confirm, { status: 'rejected', decided_by_role: 'owner' }), by)
      return {
        breaks: { changes: [move('confirm', confirm, 'pending')], ...at('confirm', confirm, 'status') },
        passes: { changes: proposePlan(graph, plan.id, { requested_by_role: 'planner' }) },
      }
    },
  },
  {
    rule: 'decision.allowed',
    title: 'refuses a decision of a role that the gate does not name',
    async prepare(world) {
      const { graph } = world
      const plan = await withPlan(world)
      await graph.commit(proposePlan(graph, plan.id, { requested_by_role: 'planner', roles: ['owner'] }), by)
      const confirm = confirmOf(graph, plan.id)!.id
      const breaking = decide(graph, confirm, { status: 'rejected', decided_by_role: 'intern' })
      return {
        breaks: { changes: breaking, ...at('decision', (breaking[0] as { id: string }).id, 'decided_by_role') },
        passes: { changes: decide(graph, confirm, { status: 'rejected', decided_by_role: 'owner' }) },
      }
    },
  },
  {
    rule: 'decision.allowed',
    title: 'refuses an approval that comes too late, but not a rejection',
    async prepare(world) {
      const { graph } = world
      const plan = await withPlan(world)
      const expires_at = '2025-12-31T00:00:00.000Z' // the clock of these tests begins in 2026
      await graph.commit(proposePlan(graph, plan.id, { requested_by_role: 'planner', expires_at }), by)
      const confirm = confirmOf(graph, plan.id)!.id
      const late = decide(graph, confirm, { status: 'approved', decided_by_role: 'owner' })
      return {
        breaks: { changes: late, ...at('decision', (late[0] as { id: string }).id) },
        passes: { changes: decide(graph, confirm, { status: 'rejected', decided_by_role: 'owner' }) },
      }
    },
  },
  {
    rule: 'decision.allowed',
    title: 'refuses a decision on a plan that was taken back',
    async prepare(world) {
      const { graph } = world
      const plan = await withPlan(world, undefined, 'proposed')
      const confirm = confirmOf(graph, plan.id)!.id
      await graph.commit([move('plan', plan.id, 'draft')], by)
      const stale = decide(graph, confirm, { status: 'approved', decided_by_role: 'owner' })
      return {
        breaks: { changes: stale, ...at('decision', (stale[0] as { id: string }).id) },
        passes: { changes: proposePlan(graph, plan.id, { requested_by_role: 'planner' }) },
      }
    },
  },

  // Keeping
  {
    rule: 'closed',
    title: 'refuses to change what has ended',
    async prepare(world) {
      const { graph } = world
      const plan = await withPlan(world)
      const other = await withPlan(world)
      await graph.commit(endPlan(graph, plan.id, 'cancelled'), by)
      return {
        breaks: { changes: [set('plan', plan.id, { title: 'x' })], ...at('plan', plan.id) },
        passes: { changes: [set('plan', other.id, { title: 'x' })] },
      }
    },
  },
  {
    rule: 'closed',
    title: 'refuses to delete what has ended',
    async prepare({ graph, context, id }) {
      const [ended, active] = [id(), id()]
      await graph.commit(
        [add('dialog', ended, dialogOf(ended, context)), add('dialog', active, dialogOf(active, context))],
        by,
      )
      await graph.commit([move('dialog', ended, 'completed')], by)
      return {
        breaks: { changes: [remove('dialog', ended)], ...at('dialog', ended) },
        passes: { changes: [remove('dialog', active)] },
      }
    },
  },
  {
    rule: 'closed.parts',
    title: 'refuses to add to what has ended',
    async prepare(world) {
      const trace = await withTrace(world)
      const open = await withTrace(world)
      await world.graph.commit([move('trace', trace, 'completed')], by)
      const segment = world.id()
      return {
        breaks: {
          changes: [add('segment', segment, segmentOf(segment), { owner: trace })],
          ...at('segment', segment),
        },
        passes: {
          changes: [
            add('segment', segment, segmentOf(segment, { status: 'completed' }), { owner: open }),
            move('trace', open, 'completed'),
          ],
        },
      }
    },
  },
  {
    rule: 'closed.parts',
    title: 'refuses a decision on a Confirm whose last word was spoken',
    async prepare(world) {
      const { graph } = world
      const plan = await withPlan(world, undefined, 'approved')
      const other = await withPlan(world, undefined, 'proposed')
      const [done, open] = [confirmOf(graph, plan.id)!.id, confirmOf(graph, other.id)!.id]
      const late = world.id()
      return {
        breaks: {
          changes: [add('decision', late, decisionData(late), { owner: done, at: 1 })],
          ...at('decision', late),
        },
        passes: { changes: decide(graph, open, { status: 'rejected', decided_by_role: 'owner' }) },
      }
    },
  },
  {
    rule: 'write_once',
    title: 'refuses to change a segment',
    async prepare(world) {
      const { segment, trace } = await withSegment(world)
      return {
        breaks: { changes: [set('segment', segment, { label: 'x' })], ...at('segment', segment) },
        passes: { changes: [add('segment_end', segment, endOf(segment), { owner: trace })] },
      }
    },
  },
  {
    rule: 'write_once',
    title: 'refuses to take a message away',
    async prepare({ graph, context, id }) {
      const dialog = id()
      const say = (n: number) => add('message', `${dialog}/${n}`, message, { owner: dialog, at: n })
      await graph.commit([add('dialog', dialog, dialogOf(dialog, context)), say(0)], by)
      return {
        breaks: { changes: [remove('message', `${dialog}/0`)], ...at('message', `${dialog}/0`) },
        passes: { changes: [say(1)] },
      }
    },
  },
  {
    rule: 'attempts',
    title: 'refuses to write the end of an attempt anew',
    async prepare(world) {
      const { action, attempts } = await withAttempts(world)
      return {
        breaks: { changes: [attempts([0], [1])], ...at('action', action, 'ended') },
        passes: { changes: [attempts([0, 1], [0])] },
      }
    },
  },
  {
    rule: 'attempts',
    title: 'refuses to forget that an attempt began',
    async prepare(world) {
      const { action, attempts } = await withAttempts(world)
      return {
        breaks: { changes: [attempts([], [])], ...at('action', action, 'began') },
        passes: { changes: [attempts([0, 1], [0, 1])] },
      }
    },
  },
  {
    rule: 'attempts',
    title: 'refuses an end without a beginning',
    async prepare(world) {
      const { action, attempts } = await withAttempts(world)
      return {
        breaks: { changes: [attempts([0], [0, 1])], ...at('action', action, 'ended') },
        passes: { changes: [attempts([0, 1], [0, 1])] },
      }
    },
  },
  {
    rule: 'attempts',
    title: 'refuses an attempt once the plan has ended',
    async prepare(world) {
      const ended = await withAttempts(world)
      const open = await withAttempts(world)
      await world.graph.commit(endPlan(world.graph, ended.plan, 'failed'), by)
      return {
        breaks: { changes: [ended.attempts([0, 1], [0])], ...at('action', ended.action) },
        passes: { changes: [open.attempts([0, 1], [0])] },
      }
    },
  },
  {
    rule: 'plan.frozen',
    title: 'refuses to change a step of a proposed plan',
    async prepare(world) {
      const plan = await withPlan(world, undefined, 'proposed')
      const build = plan.step('build')
      return {
        breaks: { changes: [set('step', build, { description: 'x' })], ...at('step', build) },
        passes: { changes: [move('step', build, 'skipped')] },
      }
    },
  },
  {
    rule: 'plan.frozen',
    title: 'refuses a new binding in an approved plan',
    async prepare(world) {
      const plan = await withPlan(world, undefined, 'approved')
      const draft = await withPlan(world)
      const binding = world.id()
      return {
        breaks: {
          changes: [add('binding', binding, bindingOf(plan.step('build'), binding))],
          ...at('binding', binding),
        },
        passes: { changes: [add('binding', binding, bindingOf(draft.step('build'), binding))] },
      }
    },
  },
  {
    rule: 'plan.frozen',
    title: 'refuses a new edge in a running plan',
    async prepare(world) {
      const plan = await withPlan(world, { a: [], b: [] }, 'in_progress')
      const [a, b] = [plan.step('a'), plan.step('b')]
      return {
        breaks: { changes: [{ kind: 'edge_add', from: b, to: a }], ...at('step', b) },
        passes: { changes: [move('step', b, 'in_progress')] },
      }
    },
  },
  {
    rule: 'governance.locked',
    title: 'refuses to change what is locked without a Confirm of its own',
    async prepare(world) {
      const { extension, confirm, governance } = await withLocked(world)
      return {
        breaks: {
          changes: [set('extension', extension, { name: 'x' })],
          ...at('extension', extension, 'governance.locked'),
        },
        passes: { changes: [set('extension', extension, { name: 'x', governance: governance(confirm) })] },
      }
    },
  },
  {
    rule: 'governance.locked',
    title: 'refuses an approved Confirm about something else',
    async prepare(world) {
      const { graph } = world
      const { extension, confirm, governance } = await withLocked(world)
      const plan = await withPlan(world, undefined, 'approved')
      const foreign = confirmOf(graph, plan.id)!.id
      return {
        breaks: {
          changes: [set('extension', extension, { name: 'x', governance: governance(foreign) })],
          ...at('extension', extension, 'governance.locked'),
        },
        passes: { changes: [set('extension', extension, { name: 'x', governance: governance(confirm) })] },
      }
    },
  },
  {
    rule: 'governance.locked',
    title: 'refuses an approved Confirm that is older than the one that opened the lock last',
    async prepare(world) {
      const { graph, id } = world
      const { extension, confirm: older, governance } = await withLocked(world)
      const [newer, newest] = [id(), id()]
      for (const confirm of [newer, newest]) {
        await graph.commit([add('confirm', confirm, confirmData(confirm, 'extension', extension))], by)
        await graph.commit(decide(graph, confirm, { status: 'approved', decided_by_role: 'owner' }), by)
      }
      await graph.commit([set('extension', extension, { name: 'x', governance: governance(newer) })], by)
      return {
        breaks: {
          changes: [set('extension', extension, { name: 'y', governance: governance(older) })],
          ...at('extension', extension, 'governance.locked'),
        },
        passes: { changes: [set('extension', extension, { name: 'y', governance: governance(newest) })] },
      }
    },
  },
  {
    rule: 'governance.locked',
    title: 'refuses to retire what is locked without a Confirm of its own',
    async prepare(world) {
      const { extension, confirm, governance } = await withLocked(world)
      const retiring = set('extension', extension, {})
      return {
        breaks: {
          changes: [{ ...retiring, retired: true } as Change],
          ...at('extension', extension, 'governance.locked'),
        },
        passes: {
          changes: [{ ...set('extension', extension, { governance: governance(confirm) }), retired: true } as Change],
        },
      }
    },
  },
  {
    rule: 'governance.locked',
    title: 'refuses a new part of what is locked',
    async prepare({ graph, context, id }) {
      const [locked, open] = [id(), id()]
      await graph.commit(
        [
          add('dialog', locked, { ...dialogOf(locked, context), governance: { locked: true } }),
          add('dialog', open, dialogOf(open, context)),
        ],
        by,
      )
      const say = (dialog: string) => add('message', `${dialog}/0`, message, { owner: dialog, at: 0 })
      return {
        breaks: { changes: [say(locked)], ...at('message', `${locked}/0`, 'governance.locked') },
        passes: { changes: [say(open)] },
      }
    },
  },
  {
    rule: 'delete.referenced',
    title: 'refuses to delete a step that another waits for',
    async prepare(world) {
      const plan = await withPlan(world, { a: [], b: ['a'] })
      const [a, b] = [plan.step('a'), plan.step('b')]
      return {
        breaks: { changes: [remove('step', a)], ...at('step', a) },
        passes: { changes: [remove('step', a), { kind: 'edge_delete', from: b, to: a }] },
      }
    },
  },
  {
    rule: 'delete.referenced',
    title: 'refuses to delete a plan and leave its steps',
    async prepare(world) {
      const plan = await withPlan(world, { a: [] })
      return {
        breaks: { changes: [remove('plan', plan.id)], ...at('plan', plan.id) },
        passes: { changes: [remove('plan', plan.id), remove('step', plan.step('a'))] },
      }
    },
  },
  {
    rule: 'delete.history',
    title: 'refuses to delete a trace',
    async prepare(world) {
      const trace = await withTrace(world, 'pending')
      return {
        breaks: { changes: [remove('trace', trace)], ...at('trace', trace) },
        passes: { changes: [move('trace', trace, 'cancelled')] },
      }
    },
  },
]
