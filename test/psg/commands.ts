import fc from 'fast-check'
import { expect } from 'vitest'
import type { Clock } from '../../src/protocol/clock.ts'
import { RuleViolation } from '../../src/protocol/errors.ts'
import { canonical, type Json } from '../../src/protocol/json.ts'
import type { Plan, PlanStatus } from '../../src/protocol/types.ts'
import type { Changes, CommitOptions, EntryBody } from '../../src/psg/change.ts'
import { takeApart } from '../../src/psg/document.ts'
import { openGraph, type ProjectGraph } from '../../src/psg/graph.ts'
import { KINDS } from '../../src/psg/kinds.ts'
import { confirmOf, decide, endPlan, move, proposePlan, startPlan } from '../../src/psg/moves.ts'
import { nodeKey, placeOf, statusOf } from '../../src/psg/node.ts'
import type { GraphState } from '../../src/psg/state.ts'
import { children } from '../../src/psg/view.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { add, by, contentsOf, META, planOf, remove, set, TIME } from './given.ts'
import { emptyModel, type Model, type ModelPlan, type ModelStep, model } from './model.ts'

/** Two that hold the same graph and know nothing of each other. */
export interface Real {
  readonly store: Backend
  readonly context: string
  readonly clock: Clock
  readonly writers: ProjectGraph[]
  readonly keepEnded: number
  /** Plans and dialogs by the order in which they came, also those that are gone. */
  readonly plans: string[]
  readonly dialogs: string[]
  readonly snapshots: { readonly id: string; readonly revision: number; readonly then: Map<string, string> }[]
}

type Command = fc.AsyncCommand<Model, Real>

/** Something that a writer does to the graph, and what the model makes of it. */
interface Deed {
  readonly name: string
  /** `undefined` when there is nothing to do it to. */
  readonly plan: (m: Model, r: Real, graph: ProjectGraph) => Promise<Planned | undefined>
}
interface Planned {
  readonly expected: boolean
  readonly commit: () => Promise<unknown>
}

function command(writer: number, deed: Deed): Command {
  return {
    check: () => true,
    async run(m, r) {
      const graph = r.writers[writer % r.writers.length]!
      const planned = await deed.plan(m, r, graph)
      if (!planned) return
      const outcome = await planned.commit().then(
        () => true,
        (error) => {
          if (!(error instanceof RuleViolation)) throw error
          return false
        },
      )
      expect(outcome, deed.name).toBe(planned.expected)
      await agree(m, r, graph)
    },
    toString: () => `${writer % 2}:${deed.name}`,
  }
}

/** Memory, store and model say the same, and the store holds together. */
async function agree(m: Model, r: Real, graph: ProjectGraph): Promise<void> {
  const fresh = await openGraph(r.store, r.context, { clock: r.clock, keepEnded: 1000 })
  expect(await fresh.verify()).toEqual([])
  const known = new Set(m.plans.keys())
  for (const [id, plan] of m.plans) expect(shape(await fresh.document('plan', id))).toEqual(planShape(plan))
  for (const [id, dialog] of m.dialogs) {
    const { status, messages } = await fresh.document('dialog', id)
    expect({ status, messages: messages.map(({ content }) => content) }).toEqual(dialog)
  }
  for (const id of r.plans) if (!known.has(id)) expect(await fresh.find('plan', id)).toBeUndefined()

  if (graph.revision !== fresh.revision) return // it has not heard of the last commits; when it does, they are compared
  const groups = [...graph.state.groups()]
  await fresh.reading([], () => undefined, groups)
  expect(contentsOf(graph.state)).toEqual(contentsOf(fresh.state, groups))
}

const shape = ({ title, status, steps }: Plan) => ({
  title,
  status,
  steps: steps.map((step) => [step.step_id, step.status, step.description, step.dependencies ?? []]),
})
const planShape = ({ title, status, steps }: ModelPlan) => ({
  title,
  status,
  steps: [...steps].map(([id, step]) => [id, step.status, step.description, step.waitsFor]),
})

/** Each writer's commits are one run, which can be taken back by itself. */
const as = (r: Real, graph: ProjectGraph): CommitOptions => ({ ...by, run: `writer ${r.writers.indexOf(graph)}` })
const looking = (r: Real, graph: ProjectGraph, plan: string): CommitOptions => ({
  ...as(r, graph),
  reads: [['plan', plan]],
})

/** Picks one of a list by a number of any size. */
const pick = <T>(list: readonly T[], n: number): T | undefined => list[n % Math.max(list.length, 1)]

function planned(m: Model, r: Real, n: number): { id: string; plan: ModelPlan; steps: string[] } | undefined {
  const id = pick(
    r.plans.filter((plan) => m.plans.has(plan)),
    n,
  )
  const plan = id === undefined ? undefined : m.plans.get(id)!
  return id !== undefined && plan ? { id, plan, steps: [...plan.steps.keys()] } : undefined
}

/** Steps with the places of those they wait for: any, so that some go round. */
function stepsFrom(specs: readonly StepSpec[], r: Real, anyStatus: boolean): Map<string, ModelStep> {
  const ids = specs.map(() => r.clock.uuid())
  return new Map(
    specs.map(({ waitsFor, status, text }, i) => [
      ids[i]!,
      {
        status: anyStatus ? status : 'pending',
        description: text,
        waitsFor: [...new Set(waitsFor.map((n) => ids[n % ids.length]!))],
      },
    ]),
  )
}

function documentFrom(
  context_id: string,
  plan_id: string,
  title: string,
  status: string,
  steps: Map<string, ModelStep>,
) {
  return {
    meta: META,
    plan_id,
    context_id,
    title,
    objective: 'o',
    status,
    steps: [...steps].map(([step_id, step]) => ({
      step_id,
      description: step.description,
      status: step.status,
      dependencies: step.waitsFor,
    })),
  } as unknown as Plan
}

interface StepSpec {
  readonly waitsFor: readonly number[]
  readonly status: string
  readonly text: string
}

const number = fc.nat(1000)
const text = fc.string({ minLength: 1, maxLength: 5 })
const stepStatus = fc.constantFrom('pending', 'in_progress', 'completed', 'blocked', 'skipped', 'failed')
const planStatus = fc.constantFrom('draft', 'proposed', 'approved', 'in_progress', 'completed', 'cancelled', 'failed')
const stepSpec = fc.record({ waitsFor: fc.array(fc.nat(3), { maxLength: 2 }), status: stepStatus, text })
/** Most plans go forward; of the rest, many go round. */
const stepSpecs = fc
  .tuple(fc.array(stepSpec, { minLength: 1, maxLength: 4 }), fc.nat(7))
  .map(([specs, luck]) =>
    luck === 0
      ? specs
      : specs.map((spec, i) => ({ ...spec, waitsFor: spec.waitsFor.flatMap((n) => (i > 0 ? [n % i] : [])) })),
  )

const addPlan = fc.tuple(text, stepSpecs).map(
  ([title, specs]): Deed => ({
    name: `adds a plan of ${specs.length} steps`,
    async plan(m, r, graph) {
      const id = r.clock.uuid()
      const steps = stepsFrom(specs, r, false)
      const expected = model.addPlan(m, id, title, steps)
      if (expected) r.plans.push(id)
      const document = documentFrom(r.context, id, title, 'draft', steps)
      return { expected, commit: () => graph.commit(takeApart('plan', document), as(r, graph)) }
    },
  }),
)

const importPlan = fc.tuple(text, planStatus, stepSpecs).map(
  ([title, status, specs]): Deed => ({
    name: `imports a plan that is ${status}`,
    async plan(m, r, graph) {
      const id = r.clock.uuid()
      const steps = stepsFrom(specs, r, true)
      const expected = model.importPlan(m, id, title, status, steps)
      if (expected) r.plans.push(id)
      const changes = takeApart('plan', documentFrom(r.context, id, title, status, steps), { imported: true })
      return { expected, commit: () => graph.commit(changes, as(r, graph)) }
    },
  }),
)

/** A deed on one of the plans that are there. */
const onPlan = (
  name: string,
  n: number,
  deed: (
    found: { id: string; plan: ModelPlan; steps: string[] },
    r: Real,
    graph: ProjectGraph,
    m: Model,
  ) => Planned | undefined,
): Deed => ({
  name,
  async plan(m, r, graph) {
    const found = planned(m, r, n)
    if (!found) return undefined
    return deed(found, r, graph, m)
  },
})

const addStep = fc.tuple(number, stepSpec).map(([n, spec]) =>
  onPlan('adds a step', n, ({ id, plan, steps }, r, graph) => {
    const step_id = r.clock.uuid()
    const waitsFor = [...new Set(spec.waitsFor.map((at) => pick(steps, at)!))]
    const expected = model.addStep(plan, step_id, { status: 'pending', description: spec.text, waitsFor })
    const data = { step_id, description: spec.text, status: 'pending' as const, dependencies: waitsFor }
    return { expected, commit: () => graph.commit([add('step', step_id, data, { owner: id })], as(r, graph)) }
  }),
)

const edge = fc.tuple(number, number, number, fc.boolean()).map(([n, i, j, adds]) =>
  onPlan(adds ? 'adds a dependency' : 'takes a dependency away', n, ({ plan, steps }, r, graph) => {
    const [from, to] = [pick(steps, i)!, pick(steps, j)!]
    const expected = adds ? model.waitFor(plan, from, to) : model.waitNoMore(plan, from, to)
    return {
      expected,
      commit: () => graph.commit([{ kind: adds ? 'edge_add' : 'edge_delete', from, to }], as(r, graph)),
    }
  }),
)

const rename = fc.tuple(number, number, text).map(([n, i, words]) =>
  onPlan('renames', n, ({ id, plan, steps }, r, graph) => {
    if (i % 2 === 0)
      return {
        expected: model.rename(plan, words),
        commit: () => graph.commit([set('plan', id, { title: words })], as(r, graph)),
      }
    const step = pick(steps, i)!
    const changes = [set('step', step, { description: words })]
    return { expected: model.describe(plan, step, words), commit: () => graph.commit(changes, as(r, graph)) }
  }),
)

const moveStep = fc.tuple(number, number, stepStatus).map(([n, i, to]) =>
  onPlan(`moves a step to ${to}`, n, ({ plan, steps }, r, graph) => {
    const step = pick(steps, i)!
    return {
      expected: model.moveStep(plan, step, to),
      commit: () => graph.commit([move('step', step, to)], as(r, graph)),
    }
  }),
)

const removeStep = fc.tuple(number, number).map(([n, i]) =>
  onPlan('removes a step', n, ({ plan, steps }, r, graph) => {
    const step = pick(steps, i)!
    return { expected: model.removeStep(plan, step), commit: () => graph.commit([remove('step', step)], as(r, graph)) }
  }),
)

const removePlan = number.map((n) =>
  onPlan('removes a plan', n, ({ id }, r, graph, m) => {
    const whole = (): Changes => [
      remove('plan', id),
      ...children(graph.state, 'plan', id).map((step) => remove('step', step.id)),
    ]
    return { expected: model.removePlan(m, id), commit: () => graph.commit(whole, looking(r, graph, id)) }
  }),
)

const propose = number.map((n) =>
  onPlan('proposes', n, ({ id, plan }, r, graph) => ({
    expected: model.propose(plan),
    commit: () => graph.commit(() => proposePlan(graph, id, { requested_by_role: 'planner' }), looking(r, graph, id)),
  })),
)

const decideOn = fc.tuple(number, fc.constantFrom('approved', 'rejected', 'cancelled')).map(([n, status]) => ({
  name: `decides: ${status}`,
  async plan(m: Model, r: Real, graph: ProjectGraph) {
    await graph.refresh() // a person looks before deciding
    const found = planned(m, r, n)
    if (!found) return undefined
    const confirm = await graph.reading([['plan', found.id]], () => confirmOf(graph, found.id)?.id)
    if (confirm === undefined) return undefined
    const expected = model.decide(found.plan, status)
    return {
      expected,
      commit: () =>
        graph.commit(() => decide(graph, confirm, { status, decided_by_role: 'owner' }), looking(r, graph, found.id)),
    }
  },
}))

const start = number.map((n) =>
  onPlan('starts', n, ({ id, plan }, r, graph) => ({
    expected: model.start(plan),
    commit: () => graph.commit(() => startPlan(graph, id, 'a run'), looking(r, graph, id)),
  })),
)

const end = fc.tuple(number, fc.constantFrom('completed', 'failed', 'cancelled')).map(([n, status]) =>
  onPlan(`ends: ${status}`, n, ({ id, plan }, r, graph) => ({
    expected: model.end(plan, status),
    commit: () => graph.commit(() => endPlan(graph, id, status), looking(r, graph, id)),
  })),
)

const dialog = fc.tuple(number, text, fc.constantFrom('new', 'say', 'active', 'paused', 'completed')).map(
  ([n, words, what]): Deed => ({
    name: `dialog: ${what}`,
    async plan(m, r, graph) {
      const known = pick(
        r.dialogs.filter((id) => m.dialogs.has(id)),
        n,
      )
      if (what === 'new' || known === undefined) {
        const dialog_id = r.clock.uuid()
        r.dialogs.push(dialog_id)
        const data = { meta: META, dialog_id, context_id: r.context, status: 'active' as const, messages: [] }
        return {
          expected: model.addDialog(m, dialog_id),
          commit: () => graph.commit([add('dialog', dialog_id, data)], as(r, graph)),
        }
      }
      const talk = m.dialogs.get(known)!
      if (what === 'say') {
        const at = talk.messages.length
        const message = { role: 'user' as const, content: words, timestamp: TIME }
        const changes = [add('message', `${known}/${at}`, message, { owner: known, at })]
        return { expected: model.say(talk, words), commit: () => graph.commit(changes, as(r, graph)) }
      }
      return {
        expected: model.moveDialog(talk, what),
        commit: () => graph.commit([move('dialog', known, what)], as(r, graph)),
      }
    },
  }),
)

const fork = number.map(
  (n): Deed => ({
    name: 'forks',
    async plan(m, r, graph) {
      const found = planned(m, r, n)
      if (!found) return undefined
      return {
        expected: true,
        async commit() {
          const copy = await graph.fork(found.id, as(r, graph))
          const ids = children(graph.state, 'plan', copy.id).map((step) => step.id)
          const renamed = new Map(found.steps.map((id, i) => [id, ids[i]!]))
          const steps = [...found.plan.steps].map(([id, step]): [string, ModelStep] => [
            renamed.get(id)!,
            { ...step, status: 'pending', waitsFor: step.waitsFor.map((other) => renamed.get(other)!) },
          ])
          model.addPlan(m, copy.id, found.plan.title, new Map(steps))
          r.plans.push(copy.id)
        },
      }
    },
  }),
)

/** Two things that nobody may do, whatever the graph looks like. */
const nonsense = number.map(
  (n): Deed => ({
    name: 'tries nonsense',
    async plan(m, r, graph) {
      const taken = pick([...m.plans.keys()], n)
      const changes =
        taken === undefined || n % 2 === 0
          ? [set('plan', r.clock.uuid(), { title: 'nobody' })]
          : planOf({ context: r.context, id: r.clock.uuid }).changes.map((change) =>
              'node' in change && change.node === 'plan' ? { ...change, id: taken } : change,
            )
      return { expected: false, commit: () => graph.commit(changes as Changes, as(r, graph)) }
    },
  }),
)

/** Both write at once, without having heard of each other. */
const race = fc.tuple(number, number, text, text).map(
  ([i, j, one, two]): Deed => ({
    name: 'races',
    async plan(m, r) {
      const drafts = [...m.plans].filter(([, plan]) => plan.status === 'draft').map(([id]) => id)
      const [a, b] = [pick(drafts, i), pick(drafts, j)]
      if (a === undefined || b === undefined || a === b) return undefined
      model.rename(m.plans.get(a)!, one)
      model.rename(m.plans.get(b)!, two)
      const commit = () =>
        Promise.all([
          r.writers[0]!.commit([set('plan', a, { title: one })], as(r, r.writers[0]!)),
          r.writers[1]!.commit([set('plan', b, { title: two })], as(r, r.writers[1]!)),
        ])
      return { expected: true, commit }
    },
  }),
)

const quiet = (writer: number, name: string, run: (m: Model, r: Real) => Promise<void>): Command => ({
  check: () => true,
  async run(m, r) {
    await run(m, r)
    await agree(m, r, r.writers[writer % r.writers.length]!)
  },
  toString: () => `${writer % 2}:${name}`,
})

const reopen = number.map((n) =>
  quiet(n, 'reopens', async (_m, r) => {
    const { store, context, clock, keepEnded } = r
    r.writers[n % r.writers.length] = await openGraph(store, context, { clock, keepEnded })
  }),
)
const refresh = number.map((n) => quiet(n, 'refreshes', (_m, r) => r.writers[n % r.writers.length]!.refresh()))
const reload = number.map((n) => quiet(n, 'reloads', (_m, r) => r.writers[n % r.writers.length]!.reload()))

const snapshot = number.map((n) =>
  quiet(n, 'takes a snapshot', async (_m, r) => {
    const graph = r.writers[n % r.writers.length]!
    await graph.refresh()
    await remember(r, graph)
  }),
)

async function remember(r: Real, graph: ProjectGraph): Promise<void> {
  const then = definitions(await everythingOf(r))
  const { id, data } = await graph.snapshot(`s${r.snapshots.length}`, by)
  r.snapshots.push({ id, revision: data.revision, then })
}

/** Whatever is not told as a conflict is defined as it was then; what is, and every status, stays as it is now. */
const restore = fc.tuple(number, number).map(([n, i]) =>
  quiet(n, 'restores', async (m, r) => {
    const snapshot = pick(r.snapshots, i)
    if (!snapshot || [...m.plans.values()].some(runs)) return
    await restores(m, r, n, { to: snapshot.id }, (key, conflict) =>
      conflict ? undefined : { is: snapshot.then.get(key) },
    )
  }),
)

/** What only that writer touched goes back, what nobody of his touched stays; where both did, either may be. */
const restoreOne = fc.tuple(number, number, fc.nat(1)).map(([n, i, whose]) =>
  quiet(n, `restores what writer ${whose} did`, async (m, r) => {
    const snapshot = pick(r.snapshots, i)
    if (!snapshot) return
    const [his, others] = [new Set<string>(), new Set<string>()]
    for await (const { body } of r.store.read(r.context, { after: snapshot.revision })) {
      const { run, changes } = body as unknown as EntryBody
      for (const { key } of changes) (run === `writer ${whose}` ? his : others).add(keyOf(key))
    }
    await restores(m, r, n, { to: snapshot.id, of: `writer ${whose}` }, (key, conflict, now) => {
      if (conflict || !his.has(key)) return undefined
      return others.has(key) ? { is: now } : { is: snapshot.then.get(key) }
    })
  }),
)
const keyOf = (key: string): string => nodeKey(placeOf(key).kind, placeOf(key).id)

/** Restores, and compares each definition with what `expects` says; where that is nothing, with what it was before. */
async function restores(
  m: Model,
  r: Real,
  n: number,
  options: { to: string; of?: string },
  expects: (key: string, conflict: boolean, now: string | undefined) => { is: string | undefined } | undefined,
): Promise<void> {
  const before = await everythingOf(r)
  const { conflicts } = await r.writers[n % r.writers.length]!.restore({ ...by, ...options })
  const left = new Set(conflicts.map(({ kind, id }) => nodeKey(kind, id)))
  const after = await everythingOf(r)
  const [was, is] = [definitions(before), definitions(after)]
  for (const key of new Set([...was.keys(), ...is.keys()])) {
    const expected = expects(key, left.has(key), is.get(key))
    expect(is.get(key), key).toBe(expected ? expected.is : was.get(key))
  }
  for (const node of before.nodes()) {
    const now = after.get(node.kind, node.id)
    if (now) expect(statusOf(now)).toBe(statusOf(node))
  }
  adopt(m, after)
}

/** Runs here, as far as the graph can know: what was imported as running does not. */
const runs = (plan: ModelPlan): boolean => plan.status === 'in_progress' && !plan.foreign

/** Everything that a restoration may touch, without statuses. */
function definitions(state: GraphState): Map<string, string> {
  const found = new Map<string, string>()
  for (const node of state.nodes()) {
    if (KINDS[node.kind].runState || KINDS[node.kind].writeOnce) continue
    const { status: _, ...data } = node.data as { status?: string }
    found.set(nodeKey(node.kind, node.id), canonical(data as Json))
  }
  return found
}

async function everythingOf({ store, context, clock }: Real): Promise<GraphState> {
  const graph = await openGraph(store, context, { clock, keepEnded: 1000 })
  return graph.at(graph.revision)
}

/** The model goes on from what a restoration left. */
function adopt(m: Model, state: GraphState): void {
  for (const id of m.plans.keys()) if (!state.has('plan', id)) m.plans.delete(id)
  for (const id of m.dialogs.keys()) if (!state.has('dialog', id)) m.dialogs.delete(id)
  for (const node of state.nodes()) {
    if (node.kind === 'plan') {
      const known = m.plans.get(node.id)
      const steps = children(state, 'plan', node.id).map((step): [string, ModelStep] => {
        const { status, description, dependencies = [] } = (step as typeof step & { kind: 'step' }).data
        return [step.id, { status, description, waitsFor: [...dependencies] }]
      })
      const asked = [...state.referrers('plan', node.id, 'CONFIRMS')].length > 0
      const foreign = known?.foreign ?? node.imported === true
      m.plans.set(node.id, { status: node.data.status, title: node.data.title, steps: new Map(steps), asked, foreign })
    } else if (node.kind === 'dialog' && !m.dialogs.has(node.id))
      m.dialogs.set(node.id, { status: node.data.status, messages: [] })
  }
}

const deeds = [
  addPlan,
  addPlan,
  addPlan,
  importPlan,
  addStep,
  addStep,
  edge,
  edge,
  rename,
  rename,
  moveStep,
  moveStep,
  removeStep,
  removePlan,
  propose,
  propose,
  decideOn,
  decideOn,
  start,
  end,
  dialog,
  dialog,
  fork,
  nonsense,
  race,
] as fc.Arbitrary<Deed>[]

/** Plans on every part of their way, and a snapshot of them. */
export async function begin(r: Real, statuses: readonly PlanStatus[]): Promise<Model> {
  const m = emptyModel()
  const graph = r.writers[0]!
  for (const [n, status] of statuses.entries()) {
    const specs = [[], [0], [0]].map((waitsFor, i) => ({ waitsFor, status: 'pending', text: `${n}${i}` }))
    const id = r.clock.uuid()
    const steps = stepsFrom(specs, r, false)
    r.plans.push(id)
    model.addPlan(m, id, `plan ${n}`, steps)
    const plan = m.plans.get(id)!
    await graph.commit(takeApart('plan', documentFrom(r.context, id, `plan ${n}`, 'draft', steps)), by)
    if (status === 'draft') continue
    await graph.commit(proposePlan(graph, id, { requested_by_role: 'planner' }), by)
    model.propose(plan)
    if (status === 'proposed') continue
    await graph.commit(decide(graph, confirmOf(graph, id)!.id, { status: 'approved', decided_by_role: 'owner' }), by)
    model.decide(plan, 'approved')
    if (status === 'approved') continue
    await graph.commit(startPlan(graph, id, 'a run'), by)
    model.start(plan)
    if (status === 'in_progress') continue
    await graph.commit(endPlan(graph, id, status as 'failed'), by)
    model.end(plan, status)
  }
  await remember(r, graph)
  return m
}

export const beginnings = fc.array(
  fc.constantFrom<PlanStatus>('draft', 'draft', 'proposed', 'approved', 'in_progress', 'failed'),
  {
    maxLength: 3,
  },
)

/** Any sequence of what two writers can do to one graph. */
export const sequences = (maxCommands: number) =>
  fc.commands(
    [
      ...deeds.map((deed) => fc.tuple(fc.nat(1), deed).map(([writer, it]) => command(writer, it))),
      reopen,
      refresh,
      reload,
      snapshot,
      snapshot,
      restore,
      restore,
      restoreOne,
      restoreOne,
    ],
    { maxCommands, size: 'max' },
  )
