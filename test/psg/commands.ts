import fc from 'fast-check'
import { expect } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { RuleViolation } from '../../src/protocol/errors.ts'
import { canonical, type Json } from '../../src/protocol/json.ts'
import type { Plan, PlanStatus } from '../../src/protocol/types.ts'
import type { EntryBody } from '../../src/psg/change.ts'
import { takeApart } from '../../src/psg/document.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { KINDS } from '../../src/psg/kinds.ts'
import { move } from '../../src/psg/moves.ts'
import { nodeKey, placeOf, statusOf } from '../../src/psg/node.ts'
import type { GraphState } from '../../src/psg/state.ts'
import { children } from '../../src/psg/view.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { type Deed, deeds, documentFrom, pick, type Real, stepsFrom } from './deeds.ts'
import { by, contentsOf, world } from './given.ts'
import { emptyModel, type Model, type ModelPlan, type ModelStep, model } from './model.ts'
import { localWriter, type Room, type Writer, type WriterOptions } from './writers.ts'

type Command = fc.AsyncCommand<Model, Real>

/** A context with two writers. `open` opens the store for each of them; `another` makes the second one, if it is not to be one of this process. */
export async function realOf(
  open: () => Promise<Backend>,
  { seed, ...room }: Room & { readonly seed: number },
  another?: (context: string) => Promise<Writer>,
): Promise<Real> {
  const clock = manualClock({ seed })
  const store = await open()
  const { context } = await world({ store, clock })
  const options: WriterOptions = { clock, ...room }
  const here = () => localWriter(open, context, options)
  const writers = [await here(), another ? await another(context) : await here()]
  return { store, context, clock, writers, plans: [], dialogs: [], snapshots: [] }
}

function command(n: number, deed: Deed): Command {
  return {
    check: () => true,
    async run(m, r) {
      const writer = writerOf(r, n)
      const planned = await deed.plan(m, r, writer)
      if (!planned) return
      const outcome = await planned.commit().then(
        () => true,
        (error) => {
          if (!(error instanceof RuleViolation)) throw error
          return false
        },
      )
      expect(outcome, deed.name).toBe(planned.expected)
      await agree(m, r, writer)
    },
    toString: () => `${n % 2}:${deed.name}`,
  }
}

const writerOf = ({ writers }: Real, n: number): Writer => writers[n % writers.length]!

/** Memory, store and model say the same, and the store holds together. */
async function agree(m: Model, r: Real, writer: Writer): Promise<void> {
  const fresh = await openGraph(r.store, r.context, { clock: r.clock, keepEnded: 1000 })
  expect(await fresh.verify()).toEqual([])
  const known = new Set(m.plans.keys())
  for (const [id, plan] of m.plans) expect(shape(await fresh.document('plan', id))).toEqual(planShape(plan))
  for (const [id, dialog] of m.dialogs) {
    const { status, messages } = await fresh.document('dialog', id)
    expect({ status, messages: messages.map(({ content }) => content) }).toEqual(dialog)
  }
  const steps = (await fresh.query({ kind: 'step', limit: 10_000 })).nodes.map(({ id, data }) => [id, data.status])
  expect(Object.fromEntries(steps)).toEqual(
    Object.fromEntries(
      [...m.plans.values()].flatMap((plan) => [...plan.steps].map(([id, { status }]) => [id, status])),
    ),
  )
  for (const id of r.plans) if (!known.has(id)) expect(await fresh.find('plan', id)).toBeUndefined()

  if ((await writer.revision()) !== fresh.revision) return // it has not heard of the last commits; when it does, they are compared
  const { groups, holds } = await writer.contents()
  await fresh.reading([], () => undefined, groups)
  expect(holds).toEqual(contentsOf(fresh.state, groups))
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

const quiet = (n: number, name: string, run: (m: Model, r: Real, writer: Writer) => Promise<void>): Command => ({
  check: () => true,
  async run(m, r) {
    const writer = writerOf(r, n)
    await run(m, r, writer)
    await agree(m, r, writer)
  },
  toString: () => `${n % 2}:${name}`,
})

const number = fc.nat(1000)
const reopen = number.map((n) => quiet(n, 'reopens', (_m, _r, writer) => writer.reopen()))
const refresh = number.map((n) => quiet(n, 'refreshes', (_m, _r, writer) => writer.refresh()))
const reload = number.map((n) => quiet(n, 'reloads', (_m, _r, writer) => writer.reload()))

const snapshot = number.map((n) =>
  quiet(n, 'takes a snapshot', async (_m, r, writer) => {
    await writer.refresh()
    await remember(r, writer)
  }),
)

async function remember(r: Real, writer: Writer): Promise<void> {
  const then = definitions(await everythingOf(r))
  r.snapshots.push({ ...(await writer.snapshot(`s${r.snapshots.length}`)), then })
}

/** Whatever is not told as a conflict is defined as it was then; what is, and every status, stays as it is now. */
const restore = fc.tuple(number, number).map(([n, i]) =>
  quiet(n, 'restores', async (m, r, writer) => {
    const snapshot = pick(r.snapshots, i)
    if (!snapshot || [...m.plans.values()].some(runs)) return
    await restores(m, r, writer, { to: snapshot.id }, (key, conflict) =>
      conflict ? undefined : { is: snapshot.then.get(key) },
    )
  }),
)

/** What only that writer touched goes back, what nobody of his touched stays; where both did, either may be. */
const restoreOne = fc.tuple(number, number, fc.nat(1)).map(([n, i, whose]) =>
  quiet(n, `restores what writer ${whose} did`, async (m, r, writer) => {
    const snapshot = pick(r.snapshots, i)
    if (!snapshot) return
    const [his, others] = [new Set<string>(), new Set<string>()]
    for await (const { body } of r.store.read(r.context, { after: snapshot.revision })) {
      const { run, changes } = body as unknown as EntryBody
      for (const { key } of changes) (run === `writer ${whose}` ? his : others).add(keyOf(key))
    }
    await restores(m, r, writer, { to: snapshot.id, of: `writer ${whose}` }, (key, conflict, now) => {
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
  writer: Writer,
  options: { to: string; of?: string },
  expects: (key: string, conflict: boolean, now: string | undefined) => { is: string | undefined } | undefined,
): Promise<void> {
  const before = await everythingOf(r)
  const conflicts = await writer.restore(options)
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

/** Plans on every part of their way, and a snapshot of them. */
export async function begin(r: Real, statuses: readonly PlanStatus[]): Promise<Model> {
  const m = emptyModel()
  const writer = r.writers[0]!
  for (const [n, status] of statuses.entries()) {
    const specs = [[], [0], []].map((waitsFor, i) => ({ waitsFor, status: 'pending', text: `${n}${i}` }))
    const id = r.clock.uuid()
    const steps = stepsFrom(specs, r, false)
    r.plans.push(id)
    model.addPlan(m, id, `plan ${n}`, steps)
    await writer.commit(takeApart('plan', documentFrom(r.context, id, `plan ${n}`, 'draft', steps)), by)
    await walk(m.plans.get(id)!, id, status, writer)
  }
  await remember(r, writer)
  return m
}

async function walk(plan: ModelPlan, id: string, to: PlanStatus, writer: Writer): Promise<void> {
  if (to === 'draft') return
  await writer.commit({ what: 'propose', plan: id }, by)
  model.propose(plan)
  if (to === 'proposed') return
  const confirm = (await writer.confirmOf(id))!
  await writer.commit({ what: 'decide', plan: id, confirm, status: 'approved' }, by)
  model.decide(plan, 'approved')
  if (to === 'approved') return
  await writer.commit({ what: 'start', plan: id }, by)
  model.start(plan)
  const [first] = plan.steps.keys()
  await writer.commit([move('step', first!, 'in_progress')], by)
  model.moveStep(plan, first!, 'in_progress')
  if (to === 'in_progress') return
  await writer.commit({ what: 'end', plan: id, status: 'failed' }, by)
  model.end(plan, 'failed')
}

export const beginnings = fc.array(
  fc.constantFrom<PlanStatus>('draft', 'proposed', 'approved', 'in_progress', 'in_progress', 'failed'),
  { minLength: 1, maxLength: 3 },
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
