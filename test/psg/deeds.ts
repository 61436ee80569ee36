import fc from 'fast-check'
import type { Clock } from '../../src/protocol/clock.ts'
import type { DecisionStatus, Plan } from '../../src/protocol/types.ts'
import type { Change, Changes, CommitOptions } from '../../src/psg/change.ts'
import { takeApart } from '../../src/psg/document.ts'
import { move } from '../../src/psg/moves.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { add, by, META, planOf, remove, set, TIME } from './given.ts'
import { type Model, type ModelPlan, type ModelStep, model } from './model.ts'
import type { Writer } from './writers.ts'

/** Two that hold the same graph and know nothing of each other, and a store to judge them by. */
export interface Real {
  readonly store: Backend
  readonly context: string
  readonly clock: Clock
  readonly writers: readonly Writer[]
  /** Plans and dialogs by the order in which they came, also those that are gone. */
  readonly plans: string[]
  readonly dialogs: string[]
  readonly snapshots: { readonly id: string; readonly revision: number; readonly then: Map<string, string> }[]
}

/** Something that a writer does to the graph, and what the model makes of it. */
export interface Deed {
  readonly name: string
  /** `undefined` when there is nothing to do it to. */
  readonly plan: (m: Model, r: Real, writer: Writer) => Promise<Planned | undefined>
}
interface Planned {
  readonly expected: boolean
  readonly commit: () => Promise<unknown>
}

/** Each writer's commits are one run, which can be taken back by itself. */
const as = (r: Real, writer: Writer): CommitOptions => ({ ...by, run: `writer ${r.writers.indexOf(writer)}` })

/** Picks one of a list by a number of any size. */
export const pick = <T>(list: readonly T[], n: number): T | undefined => list[n % Math.max(list.length, 1)]

interface Found {
  readonly id: string
  readonly plan: ModelPlan
  readonly steps: readonly string[]
}

/** The plan that a number stands for, and its steps, beginning with any; other turns give other ones. */
function planned(m: Model, r: Real, n: number, turn = 0): Found | undefined {
  const ids = r.plans.filter((plan) => m.plans.has(plan))
  const id = pick(ids, n + turn)
  if (id === undefined) return undefined
  const plan = m.plans.get(id)!
  const steps = [...plan.steps.keys()]
  const first = Math.floor(turn / ids.length) % Math.max(steps.length, 1)
  return { id, plan, steps: [...steps.slice(first), ...steps.slice(0, first)] }
}

/** Steps with the places of those they wait for: any, so that some go round. */
export function stepsFrom(specs: readonly StepSpec[], r: Real, anyStatus: boolean): Map<string, ModelStep> {
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

export function documentFrom(
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
    async plan(m, r, writer) {
      const id = r.clock.uuid()
      const steps = stepsFrom(specs, r, false)
      const expected = model.addPlan(m, id, title, steps)
      if (expected) r.plans.push(id)
      const parts = takeApart('plan', documentFrom(r.context, id, title, 'draft', steps))
      const changes = specs.length % 2 === 0 ? parts.toReversed() : parts // in whatever order
      return { expected, commit: () => writer.commit(changes, as(r, writer)) }
    },
  }),
)

const importPlan = fc.tuple(text, planStatus, stepSpecs).map(
  ([title, status, specs]): Deed => ({
    name: `imports a plan that is ${status}`,
    async plan(m, r, writer) {
      const id = r.clock.uuid()
      const steps = stepsFrom(specs, r, true)
      const expected = model.importPlan(m, id, title, status, steps)
      if (expected) r.plans.push(id)
      const changes = takeApart('plan', documentFrom(r.context, id, title, status, steps), { imported: true })
      return { expected, commit: () => writer.commit(changes, as(r, writer)) }
    },
  }),
)

/** A deed on one of the plans that are there: mostly on one that it can be done to, if there is one, else it would be refused nearly always. */
const onPlan = (
  name: string,
  n: number,
  deed: (found: Found, r: Real, writer: Writer, m: Model) => Planned | undefined,
): Deed => ({
  name,
  async plan(m, r, writer) {
    const at =
      n % 4 === 0
        ? 0
        : TURNS.find((turn) => {
            const sketch = structuredClone(m)
            const found = planned(sketch, r, n, turn)
            return found && deed(found, r, writer, sketch)?.expected
          })
    const found = planned(m, r, n, at)
    return found && deed(found, r, writer, m)
  },
})
const TURNS = Array.from({ length: 12 }, (_, turn) => turn)

const addStep = fc.tuple(number, stepSpec).map(([n, spec]) =>
  onPlan('adds a step', n, ({ id, plan, steps }, r, writer) => {
    const step_id = r.clock.uuid()
    const waitsFor = [...new Set(spec.waitsFor.map((at) => pick(steps, at)!))]
    const expected = model.addStep(plan, step_id, { status: 'pending', description: spec.text, waitsFor })
    const data = { step_id, description: spec.text, status: 'pending' as const, dependencies: waitsFor }
    return { expected, commit: () => writer.commit([add('step', step_id, data, { owner: id })], as(r, writer)) }
  }),
)

const edge = fc.tuple(number, number, number, fc.boolean()).map(([n, i, j, adds]) =>
  onPlan(adds ? 'adds a dependency' : 'takes a dependency away', n, ({ plan, steps }, r, writer) => {
    const [from, to] = [pick(steps, i)!, pick(steps, j)!]
    const expected = adds ? model.waitFor(plan, from, to) : model.waitNoMore(plan, from, to)
    return {
      expected,
      commit: () => writer.commit([{ kind: adds ? 'edge_add' : 'edge_delete', from, to }], as(r, writer)),
    }
  }),
)

const rename = fc.tuple(number, number, text).map(([n, i, words]) =>
  onPlan('renames', n, ({ id, plan, steps }, r, writer) => {
    if (i % 2 === 0)
      return {
        expected: model.rename(plan, words),
        commit: () => writer.commit([set('plan', id, { title: words })], as(r, writer)),
      }
    const step = pick(steps, i)!
    const changes = [set('step', step, { description: words })]
    return { expected: model.describe(plan, step, words), commit: () => writer.commit(changes, as(r, writer)) }
  }),
)

const moveStep = fc.tuple(number, number, stepStatus).map(([n, i, to]) =>
  onPlan(`moves a step to ${to}`, n, ({ plan, steps }, r, writer) => {
    const step = pick(steps, i)!
    return {
      expected: model.moveStep(plan, step, to),
      commit: () => writer.commit([move('step', step, to)], as(r, writer)),
    }
  }),
)

const removeStep = fc.tuple(number, number).map(([n, i]) =>
  onPlan('removes a step', n, ({ plan, steps }, r, writer) => {
    const step = pick(steps, i)!
    return {
      expected: model.removeStep(plan, step),
      commit: () => writer.commit([remove('step', step)], as(r, writer)),
    }
  }),
)

const removePlan = number.map((n) =>
  onPlan('removes a plan', n, ({ id }, r, writer, m) => ({
    expected: model.removePlan(m, id),
    commit: () => writer.commit({ what: 'remove', plan: id }, as(r, writer)),
  })),
)

const propose = number.map((n) =>
  onPlan('proposes', n, ({ id, plan }, r, writer) => ({
    expected: model.propose(plan),
    commit: () => writer.commit({ what: 'propose', plan: id }, as(r, writer)),
  })),
)

const decideOn = fc
  .tuple(number, fc.constantFrom<DecisionStatus>('approved', 'rejected', 'cancelled'))
  .map(([n, status]) => ({
    name: `decides: ${status}`,
    async plan(m: Model, r: Real, writer: Writer) {
      await writer.refresh() // a person looks before deciding
      const found = planned(m, r, n, n % 4 === 3 ? 0 : TURNS.find((turn) => isProposed(planned(m, r, n, turn))))
      if (!found) return undefined
      const confirm = await writer.confirmOf(found.id)
      if (confirm === null) return undefined
      const expected = model.decide(found.plan, status)
      const asked = { what: 'decide', plan: found.id, confirm, status } as const
      return { expected, commit: () => writer.commit(asked, as(r, writer)) }
    },
  }))

const isProposed = (found: Found | undefined): boolean => found?.plan.status === 'proposed'

const start = number.map((n) =>
  onPlan('starts', n, ({ id, plan }, r, writer) => ({
    expected: model.start(plan),
    commit: () => writer.commit({ what: 'start', plan: id }, as(r, writer)),
  })),
)

type Ending = 'completed' | 'failed' | 'cancelled'
const end = fc.tuple(number, fc.constantFrom<Ending>('completed', 'failed', 'cancelled')).map(([n, status]) =>
  onPlan(`ends: ${status}`, n, ({ id, plan }, r, writer) => ({
    expected: model.end(plan, status),
    commit: () => writer.commit({ what: 'end', plan: id, status }, as(r, writer)),
  })),
)

const dialog = fc.tuple(number, text, fc.constantFrom('new', 'say', 'active', 'paused', 'completed')).map(
  ([n, words, what]): Deed => ({
    name: `dialog: ${what}`,
    async plan(m, r, writer) {
      const known = pick(
        r.dialogs.filter((id) => m.dialogs.has(id)),
        n,
      )
      if (what === 'new' || known === undefined) {
        const changes = [newDialog(m, r)]
        return { expected: true, commit: () => writer.commit(changes, as(r, writer)) }
      }
      const talk = m.dialogs.get(known)!
      if (what === 'say') {
        const at = talk.messages.length
        const message = { role: 'user' as const, content: words, timestamp: TIME }
        const changes = [add('message', `${known}/${at}`, message, { owner: known, at })]
        return { expected: model.say(talk, words), commit: () => writer.commit(changes, as(r, writer)) }
      }
      return {
        expected: model.moveDialog(talk, what),
        commit: () => writer.commit([move('dialog', known, what)], as(r, writer)),
      }
    },
  }),
)

function newDialog(m: Model, r: Real): Change {
  const dialog_id = r.clock.uuid()
  r.dialogs.push(dialog_id)
  model.addDialog(m, dialog_id)
  return add('dialog', dialog_id, {
    meta: META,
    dialog_id,
    context_id: r.context,
    status: 'active',
    messages: [],
  })
}

const fork = number.map(
  (n): Deed => ({
    name: 'forks',
    async plan(m, r, writer) {
      const found = planned(m, r, n)
      if (!found) return undefined
      return {
        expected: true,
        async commit() {
          const copy = await writer.fork(found.id, as(r, writer))
          const renamed = new Map(found.steps.map((id, i) => [id, copy.steps[i]!]))
          const steps = [...found.plan.steps].map(([id, step]): [string, ModelStep] => [
            renamed.get(id)!,
            { ...step, status: 'pending', waitsFor: step.waitsFor.map((other) => renamed.get(other)!) },
          ])
          model.addPlan(m, copy.plan, found.plan.title, new Map(steps))
          r.plans.push(copy.plan)
        },
      }
    },
  }),
)

/** Two things that nobody may do, whatever the writer looks like. */
const nonsense = number.map(
  (n): Deed => ({
    name: 'tries nonsense',
    async plan(m, r, writer) {
      const taken = pick([...m.plans.keys()], n)
      const changes =
        taken === undefined || n % 2 === 0
          ? [set('plan', r.clock.uuid(), { title: 'nobody' })]
          : planOf({ context: r.context, id: r.clock.uuid }).changes.map((change) =>
              'node' in change && change.node === 'plan' ? { ...change, id: taken } : change,
            )
      return { expected: false, commit: () => writer.commit(changes as Changes, as(r, writer)) }
    },
  }),
)

/** Both write at once, without having heard of each other: different things, and both land. */
const race = fc.tuple(number, number, text, text).map(
  ([i, j, one, two]): Deed => ({
    name: 'races',
    async plan(m, r) {
      const drafts = [...m.plans].filter(([, plan]) => plan.status === 'draft').map(([id]) => id)
      const [a, b] = [pick(drafts, i), pick(drafts, j)]
      if (a === undefined) return undefined
      model.rename(m.plans.get(a)!, one)
      const other = b === undefined || a === b ? newDialog(m, r) : set('plan', b, { title: two })
      if (b !== undefined && a !== b) model.rename(m.plans.get(b)!, two)
      const [first, second] = [[set('plan', a, { title: one })], [other]]
      const commit = () =>
        Promise.all([first, second].map((changes, n) => r.writers[n]!.commit(changes, as(r, r.writers[n]!))))
      return { expected: true, commit }
    },
  }),
)

/** Both make the same move at once: it is made once, and the other is told that it was not his. */
const raceForOne = number.map((n) =>
  onPlan('races for one move', n, ({ plan, steps }, r) => {
    const step = pick(steps, n)!
    const expected = model.moveStep(plan, step, 'skipped')
    const commit = async () => {
      const tries = r.writers.map((writer) => writer.commit([move('step', step, 'skipped')], as(r, writer)))
      const lost = (await Promise.allSettled(tries)).filter((one) => one.status === 'rejected')
      if (lost.length !== 1) throw lost[0]?.reason ?? new Error('both made the same move')
    }
    return { expected, commit }
  }),
)

/** The likelier ones several times. */
export const deeds = [
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
  race,
  raceForOne,
] as fc.Arbitrary<Deed>[]
