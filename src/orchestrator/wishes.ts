import { type Clock, isoMicros } from '../protocol/clock.ts'
import { allOf } from '../protocol/each.ts'
import { InvalidInput, NotFound, type Problem } from '../protocol/errors.ts'
import { anything, type Fields, needed, refuseUnlessFit, text, wholeFrom } from '../protocol/fields.ts'
import { breachProblems } from '../protocol/invariants.ts'
import type { Digest, JsonGiven, JsonObject } from '../protocol/json.ts'
import type { Confirm, Plan } from '../protocol/types.ts'
import type { Change, Node, NodeAdd } from '../psg/change.ts'
import { agreedTo, confirmOf, gateOf } from '../psg/confirm.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { INDEX, type Whereabouts } from '../psg/indexes.ts'
import { insist } from '../psg/insist.ts'
import { type Deciding, decide, proposePlan } from '../psg/moves.ts'
import { ofKind } from '../psg/node.ts'
import { CONTEXTS_AT_ONCE } from '../psg/open-graphs.ts'
import { plain } from '../psg/plain.ts'
import { type Project, upToDate } from '../psg/project.ts'
import { bindSteps, type Resolver } from './bind.ts'
import { EXPIRES_MS } from './gate.ts'
import type { RunOptions } from './live.ts'
import { seatProblems } from './open-session.ts'
import { saBreaches } from './profiles/sa.ts'
import { refused, storeRequest } from './requests.ts'
import type { Session } from './session.ts'
import { isAwaited, refuseUnlessTaken } from './signals.ts'
import { fired, newTimer, openTimers } from './timers.ts'
import { commitStill, woken } from './waiting-runs.ts'

/** What people may ask of runs. Each wish is stored first, by whoever asks; the run's owner takes it in at its next tick. */
export interface Wishes {
  /**
   * Everything that waits for a person, oldest first; or a page of it: at most so many, behind the Confirm of that id. A page is in the order of ids,
   * which is that of time where nobody chose them: ids begin with it.
   */
  waiting(page?: { readonly after?: string; readonly limit?: number }): Promise<readonly Question[]>
  /** Adds a person's decision. Throws NotFound, RuleViolation for a role that may not or a gate that is over. */
  decide(confirm: string, decision: Deciding): Promise<Confirm>
  /** Puts a plan that was sent back up for approval again, as it now stands. Throws InvalidInput for a new step that nobody can execute, or that nobody of its session may do. */
  propose(plan: string, options?: { requested_by_role?: string; reason?: string }): Promise<Confirm>
  /** Ends a run: what is under way is told to stop. Resolves when the wish is stored, not when the run has ended. */
  cancel(run: string): Promise<void>
  /** At the next boundary. Throws InvalidInput for a run that has not started, as `resume` does. */
  pause(run: string): Promise<void>
  resume(run: string): Promise<void>
  /** Hands something from outside to a run: a step bound to `wait` for that name takes it. Throws InvalidInput for a name that none is bound to. */
  signal(run: string, name: string, payload?: JsonGiven): Promise<void>
}

/** Something that a person must decide. */
export interface Question {
  readonly confirm: Confirm
  readonly context_id: string
  readonly plan_id?: string
  /** Who may decide; anybody when absent. */
  readonly roles?: readonly string[]
  /** How many different roles must approve. */
  readonly needed: number
  /** Those that have; absent while nobody has. */
  readonly approved_by?: readonly string[]
  readonly shows?: JsonObject
  /** Of what is up for decision: who gives it back with an answer is refused once it is something else. */
  readonly digest?: Digest
  readonly expires_at?: string
}

export interface WishesOptions {
  readonly project: Project
  readonly clock: Clock
  /** Throws when it is too late for wishes. */
  readonly open: () => void
  /** How a step is executed that was added since the plan was submitted. */
  readonly resolve: Resolver | undefined
  readonly locateRun: (id: string) => Promise<{ readonly graph: ProjectGraph; readonly run: Node<'run'> }>
  /** Has the context's owner, us if nobody is, look at what was stored. Does not throw. */
  readonly look: (context: string) => Promise<unknown>
}

export function wishes({ project, clock, open, resolve, locateRun, look }: WishesOptions): Wishes {
  /** The graph of an object, as others have left it and with all that belongs to the object. */
  async function graphOf(kind: 'confirm' | 'plan', id: string) {
    const key = INDEX.id(kind, id)
    const where = (await project.store.getMany([key])).get(key) as Whereabouts | undefined
    if (!where) throw new NotFound(kind, id)
    return { graph: await upToDate(project, where), group: where.group }
  }

  /** Those among the next rows of the index that still wait, and the last row. */
  async function questionsBehind(after: string | undefined, limit: number) {
    const from = { limit, ...(after !== undefined && { after: INDEX.waiting(after) }) }
    const places: (readonly [string, Whereabouts])[] = []
    for await (const [key, where] of project.store.scan(INDEX.waiting(''), from))
      places.push([key.slice(INDEX.waiting('').length), where as Whereabouts])
    const questions = await allOf(places, CONTEXTS_AT_ONCE, async ([id, where]) => {
      const graph = await upToDate(project, where)
      const confirm = graph.get('confirm', id)
      return confirm?.data.status === 'pending' ? [questionOf(graph, confirm)] : [] // answered since
    })
    return { questions: questions.flat(), last: places.at(-1)?.[0] }
  }

  async function request(id: string, requested: 'cancel' | 'pause' | 'resume'): Promise<void> {
    open()
    const { graph, run } = await locateRun(id)
    const by = { actor: 'user', reason: `somebody asked to ${requested} the run` }
    const stored = await storeRequest({ graph, run }, requested, by)
    if (stored) await look(graph.id)
  }

  return {
    async waiting(page = {}) {
      open()
      refuseUnlessFit('page', page, PAGE)
      const { after, limit = Number.POSITIVE_INFINITY } = page
      const asked: Question[] = []
      for (let from = after; asked.length < limit; ) {
        const { questions, last } = await questionsBehind(from, Math.min(limit - asked.length, QUESTIONS_AT_ONCE))
        asked.push(...questions)
        if (last === undefined) break
        from = last
      }
      if (after !== undefined || page.limit !== undefined) return asked
      return asked.sort((a, b) => (a.confirm.requested_at < b.confirm.requested_at ? -1 : 1))
    },
    async decide(confirm, decision) {
      open()
      refuseUnlessFit('decision', decision, DECISION)
      const { graph, group } = await graphOf('confirm', confirm)
      const run = graph.state.plan(group)?.activeRun
      const decided = () => {
        const changes = decide(graph, confirm, decision)
        const wakes = run !== undefined && changes.length > 1 && goesOn(changes)
        return [...changes, ...(wakes ? woken(graph, run) : [])]
      }
      await insist(graph, decided, {
        actor: decision.decided_by_role,
        reason: decision.reason ?? `decided: ${decision.status}`,
      })
      if (run !== undefined) await look(graph.id)
      return graph.document('confirm', confirm)
    },
    async propose(plan, given = {}) {
      open()
      refuseUnlessFit('proposal', given, PROPOSAL)
      const { graph } = await graphOf('plan', plan)
      const by = { actor: given.requested_by_role ?? 'runtime', reason: given.reason ?? 'put up for approval' }
      await commitStill(graph, () => missingBindings(graph, plan, resolve), by) // what is approved is the plan with all of them
      await insist(graph, () => proposedAgain(graph, plan, given), by)
      return graph.document('confirm', confirmOf(graph, plan)!.id)
    },
    cancel: (id) => request(id, 'cancel'),
    pause: (id) => request(id, 'pause'),
    resume: (id) => request(id, 'resume'),
    async signal(id, name, given = null) {
      open()
      refuseUnlessFit('signal', { name }, { name: needed(text) })
      const payload = plain(given, 'payload', 'signal')
      const { graph, run } = await locateRun(id)
      const signal_id = clock.uuid()
      const phase = () => graph.get('run', run.id)?.data.phase
      const handedOver = (): readonly Change[] => {
        if (phase() === 'ended') throw refused('signal', 'ended', `${run.id} has ended`)
        refuseUnlessTaken(graph, run, name)
        const wakes = phase() === 'waiting' && isAwaited(graph, run.group, name) ? woken(graph, run.id) : []
        const data = { signal_id, name, payload }
        return [{ kind: 'node_add', node: 'signal', id: signal_id, group: run.group, data }, ...wakes]
      }
      await insist(graph, handedOver, { actor: 'outside', reason: `signal ${name}` })
      if (phase() === 'running') await look(graph.id)
    },
  }
}

const QUESTIONS_AT_ONCE = 200

/** A digest that is misspelt would bind nobody, and whoever proposes again does not say how many must agree. */
const DECISION: Fields = {
  status: anything,
  decided_by_role: needed(text),
  reason: anything,
  decision_id: anything,
  digest: anything,
}
const PAGE: Fields = { after: text, limit: wholeFrom(0) }
const PROPOSAL: Fields = { requested_by_role: text, reason: anything }

function missingBindings(graph: ProjectGraph, plan: string, resolve: Resolver | undefined): readonly Change[] {
  const run = graph.get('run', graph.state.plan(plan)?.activeRun ?? '')
  if (!run) return []
  const parts = [...graph.state.nodesOf(plan)]
  const steps = [...ofKind(parts, 'step')].map(({ data }) => data)
  const problems = profileProblems(run.data.options as RunOptions, steps)
  if (problems.length > 0) throw new InvalidInput('flow', problems)
  const bound = Object.fromEntries([...ofKind(parts, 'binding')].map(({ data }) => [data.step_id, data]))
  return bindSteps(steps, { steps: bound }, resolve, graph.clock.uuid)
    .filter(({ step_id }) => !Object.hasOwn(bound, step_id))
    .map((data) => ({ kind: 'node_add', node: 'binding', id: data.binding_id, data }))
}

/** What a profile would have refused, had the plan been submitted with these steps. */
function profileProblems({ profile = 'sa', session }: RunOptions, steps: Plan['steps']): readonly Problem[] {
  if (session) return seatProblems((session as Session).seats, steps)
  const breaches = profile === 'sa' ? saBreaches({ plan: { steps } }) : []
  return breachProblems(breaches.filter(({ path }) => path.startsWith('plan.steps')))
}

/** The same people are asked again, and as many of them, for as long. */
function proposedAgain(
  graph: ProjectGraph,
  plan: string,
  given: { readonly requested_by_role?: string; readonly reason?: string },
): readonly Change[] {
  const asked = confirmOf(graph, plan)
  const gate = asked && gateOf(graph, asked.id)?.data
  const due = graph.clock.now() + EXPIRES_MS
  const changes = proposePlan(graph, plan, {
    requested_by_role: 'runtime',
    ...(gate?.expires_at !== undefined && { expires_at: isoMicros(due * 1000) }),
    ...given,
  })
  if (gate?.expires_at === undefined) return changes
  const renewed = changes.find((change) => change.kind === 'node_add' && change.node === 'gate') as NodeAdd<'gate'>
  const target = renewed.data.confirm_id
  const older = openTimers(graph, plan).filter(({ data }) => data.purpose === 'expiry') // of a question that was answered
  const timer = newTimer(graph.clock.uuid(), plan, { due, purpose: 'expiry', target })
  return [...changes, ...older.map(({ id }) => fired(id)), timer]
}

/** A plan that goes back to draft waits on; everything else has somewhere to go. */
const goesOn = (changes: readonly Change[]): boolean =>
  !changes.some(
    (change) =>
      change.kind === 'node_update' &&
      change.node === 'plan' &&
      'status' in change.set &&
      change.set.status === 'draft',
  )

function questionOf(graph: ProjectGraph, confirm: Node<'confirm'>): Question {
  const gate = gateOf(graph, confirm.id)?.data
  const plan = graph.get('plan', confirm.group)
  const approved = [...agreedTo(graph, confirm.id)]
  return {
    confirm: confirm.data,
    context_id: graph.id,
    ...(plan && { plan_id: plan.id }),
    ...(gate?.roles && { roles: gate.roles }),
    needed: gate?.needed ?? 1,
    ...(approved.length > 0 && { approved_by: approved }),
    ...(gate?.shows && { shows: gate.shows }),
    ...(gate && { digest: gate.digest }),
    ...(gate?.expires_at !== undefined && { expires_at: gate.expires_at }),
  }
}
