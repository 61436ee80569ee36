import { systemClock } from '../../src/protocol/clock.ts'
import { confirmOf } from '../../src/psg/confirm.ts'
import { openProject } from '../../src/psg/project.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { by, contextOf, planOf, type World, withPlan } from '../psg/given.ts'
import { bare, type Doors, door, elsewhere, given, making, name, options, saying } from './doors.ts'
import { SYSTEM_CLOCK } from './protocol.ts'
import { STORE } from './vsl.ts'

const store = memoryBackend()
const project = await openProject(store)
const graph = await project.create(contextOf(systemClock.uuid()), by)
const world: World = { clock: systemClock, store, graph, context: graph.id, id: systemClock.uuid }
const draft = await withPlan(world)
const proposed = await withPlan(world, undefined, 'proposed')
const approved = await withPlan(world, undefined, 'approved')
const running = await withPlan(world, undefined, 'in_progress')
const newContext = () => given(contextOf(systemClock.uuid()))
const newPlan = () => planOf(world).document

const [kind, id, named, commit] = [given('plan'), given(draft.id), name(draft.id), given(by)]
const [inGraph, state] = [given(graph), given(graph.state)]

const MEMORY = 'looks into memory for every check of every commit: nothing is there under what is no name'
const STATE: Doors = {
  get: MEMORY,
  has: MEMORY,
  nodes: bare,
  nodesOf: MEMORY,
  referrers: MEMORY,
  awaiting: MEMORY,
  targets: MEMORY,
  dependantsOf: MEMORY,
  plan: MEMORY,
  activeRuns: bare,
  tombstone: MEMORY,
  groups: bare,
  hasGroup: MEMORY,
}
const GRAPH: Doors = {
  store: { members: STORE },
  clock: { members: SYSTEM_CLOCK },
  state: { members: STATE },
  get: MEMORY,
  find: door(kind, named),
  require: door(kind, id),
  reading: door(
    given([['plan', draft.id]], 'list'),
    given(() => 1),
    given([], 'nothing', 'list'),
  ),
  load: door(named),
  nodesOf: door(named, given(['plan'], 'list')),
  commit: door(given(planOf(world).changes, 'list'), commit),
  check: door(given(planOf(world).changes, 'list'), commit),
  document: door(kind, id, options()),
  history: door(kind, named),
  why: door(kind, id),
  query: door(saying({ kind: 'plan' })),
  at: making(elsewhere(STATE), given(1, 'number')),
  diff: door(given(1, 'number'), given(2, 'number')),
  snapshot: door(name('a'), saying(by)),
  restore: door(saying({ ...by, to: 1, dryRun: true, of: 'nobody' })),
  fork: door(id, commit),
  verify: bare,
  watch: making(
    'the way to stop',
    given(() => undefined),
  ),
  refresh: bare,
  reload: bare,
}
export const ANY_GRAPH = elsewhere(GRAPH)
const UNKNOWN = 'asks whether there is something of that name: of what is no name there is nothing'
const PROJECT: Doors = {
  store: { members: STORE },
  graph: { members: ANY_GRAPH },
  context: making(ANY_GRAPH, given(graph.id)),
  opening: making(ANY_GRAPH, name(graph.id)),
  beginning: making(ANY_GRAPH, name(systemClock.uuid())),
  create: making(ANY_GRAPH, newContext(), commit),
  import: making({ graph: { members: ANY_GRAPH } }, given([['context', newContext().right]]), commit),
  locate: UNKNOWN,
  role: UNKNOWN,
  forget: UNKNOWN,
  verify: door(options()),
}
export const ANY_PROJECT = elsewhere(PROJECT)
const PATHS: Doors = {
  getContext: door(given(graph.id)),
  postContext: door(newContext(), commit),
  getPlan: door(id),
  postPlan: door(given(newPlan()), commit),
  patchPlanStatus: door(given((await withPlan(world)).id), given('proposed'), commit),
  deletePlan: door(given((await withPlan(world)).id), commit),
}

export const psg: Doors = {
  openGraph: making(GRAPH, given(store), name(graph.id), options()),
  openProject: making(PROJECT, given(store), options()),
  ProjectGraph: making(ANY_GRAPH, given(store), name(graph.id), options({})),
  children: door(state, kind, named),
  decide: door(
    inGraph,
    given(confirmOf(graph, proposed.id)!.id),
    saying({ status: 'approved', decided_by_role: 'owner' }),
  ),
  dependants: door(state, name(draft.step('build')), given(1, 'nothing', 'number')),
  dependencies: door(state, name(draft.step('ship')), given(1, 'nothing', 'number')),
  dot: door(state, given({ plan: draft.id })),
  endPlan: door(inGraph, given(running.id), given('failed'), given(new Set(), 'nothing')),
  eventsIn: door(given({ stream: graph.id, revision: 1, body: {} })),
  graphAt: making(STATE, inGraph, given(1, 'number')),
  mermaid: door(state, given({ plan: draft.id })),
  move: door(kind, named, given('proposed')),
  path: door(state, given(['plan', draft.id]), given(['context', graph.id])),
  pathsOf: making(PATHS, given(project)),
  pendingConfirms: door(state),
  planDigest: door(given(graph.get('plan', draft.id)), given([...graph.state.nodesOf(draft.id)], 'list')),
  proposePlan: door(inGraph, id, saying({ requested_by_role: 'planner' })),
  query: door(state, saying({ kind: 'plan' })),
  readySteps: door(state, named),
  startPlan: door(inGraph, name(approved.id), name('a run')),
  takeApart: door(kind, given(newPlan()), options()),
  verdict: door(given({ needed: 1 }, 'nothing'), given([], 'list')),
  why: door(state, kind, named),
  writeTrailing: door(given(memoryBackend())),
}
