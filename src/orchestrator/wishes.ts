import { type Clock, LONGEST_WAIT_MS } from '../protocol/clock.ts'
import { eachOf } from '../protocol/each.ts'
import { NotFound } from '../protocol/errors.ts'
import { anything, type Fields, needed, refuseUnlessFit, text, uuid, within } from '../protocol/fields.ts'
import type { JsonGiven } from '../protocol/json.ts'
import type { Confirm } from '../protocol/types.ts'
import type { Change, Kind } from '../psg/change.ts'
import { confirmOf } from '../psg/confirm.ts'
import { commitStill, insist } from '../psg/insist.ts'
import { type Deciding, decide } from '../psg/moves.ts'
import { CONTEXTS_AT_ONCE } from '../psg/open-graphs.ts'
import { plain } from '../psg/plain.ts'
import { type Project, upToDate } from '../psg/project.ts'
import type { Resolver } from './bind.ts'
import { childrenUnderWay, childrenWaitedFor } from './children-under-way.ts'
import { missingBindings, type ProposeOptions, proposedAgain } from './propose-again.ts'
import { type Question, questionsIn } from './questions.ts'
import { type Placed, refused, storeRequest, withParent } from './requests.ts'
import { isAwaited, refuseUnlessCarried, refuseUnlessTaken } from './signals.ts'
import { isUndecided, woken } from './waiting-runs.ts'

/** What people may ask of runs. Each wish is stored first, by whoever asks; the run's owner takes it in at its next tick. */
export interface Wishes {
  /**
   * Everything that waits for a person, oldest first; or a page of it: at most so many, behind the Confirm of that id. A page is in the order of ids,
   * which is that of time where nobody chose them: ids begin with it. A question whose time is over is none any more.
   */
  waiting(page?: { readonly after?: string; readonly limit?: number }): Promise<readonly Question[]>
  /** Adds a person's decision. Throws NotFound, RuleViolation for a role that may not or a gate that is over. */
  decide(confirm: string, decision: Deciding): Promise<Confirm>
  /**
   * Puts a plan that was sent back, or that of a run, up for approval again, as it now stands, before the same people and for as long as at first.
   * Throws InvalidInput for a new step that nobody can execute, or that nobody of its session may do.
   */
  propose(plan: string, options?: ProposeOptions): Promise<Confirm>
  /** Ends a run: what is under way is told to stop. Resolves when the wish is stored, not when the run has ended. */
  cancel(run: string): Promise<void>
  /**
   * At the next boundary, and with it the children that its steps wait for, which `resume` has go on too; not one whose plan is still to be approved.
   * Throws InvalidInput for a run that has not started, as `resume` does.
   */
  pause(run: string): Promise<void>
  resume(run: string): Promise<void>
  /** Hands something from outside to a run: a step bound to `wait` for that name takes it. Throws InvalidInput for a name that none is bound to, and for more than 16 MiB. */
  signal(run: string, name: string, payload?: JsonGiven): Promise<void>
}

export interface WishesOptions {
  readonly project: Project
  readonly clock: Clock
  /** Throws when it is too late for wishes. */
  readonly open: () => void
  /** How a step is executed that was added since the plan was submitted. */
  readonly resolve: Resolver | undefined
  readonly locateRun: (id: string) => Promise<Placed>
  /** Has the context's owner, us if nobody is, look at what was stored. Does not throw. */
  readonly look: (context: string) => Promise<unknown>
}

export function wishes({ project, clock, open, resolve, locateRun, look }: WishesOptions): Wishes {
  /** The graph of an object, as others have left it and with all that belongs to the object. */
  async function graphOf(id: string, kind: Kind, or = kind) {
    const where = await project.locate(id, kind, or)
    if (where?.kind !== kind && where?.kind !== or) throw new NotFound(kind, id)
    return { graph: await upToDate(project, where), group: where.group }
  }

  async function request(id: string, requested: 'cancel' | 'pause' | 'resume'): Promise<void> {
    open()
    await ask(await locateRun(id), requested, `somebody asked to ${requested} the run`)
  }
  async function ask(found: Placed, requested: 'cancel' | 'pause' | 'resume', reason: string): Promise<void> {
    const { graph, run } = found
    if (!(await storeRequest(found, requested, { actor: 'user', reason }))) return
    await look(graph.id)
    if (requested === 'cancel') return // its owner sees to its children
    const { underWay } = await childrenUnderWay(project.store, childrenWaitedFor(graph, run.group))
    await eachOf(underWay.keys(), CONTEXTS_AT_ONCE, async (id) => {
      const child = await locateRun(id)
      if (!isUndecided(child.graph, id)) await ask(child, requested, withParent(run.id, requested))
    })
  }

  return {
    async waiting(page) {
      open()
      return questionsIn(project, page)
    },
    async decide(confirm, decision) {
      open()
      refuseUnlessFit('decision', decision, DECISION)
      const { graph, group } = await graphOf(confirm, 'confirm')
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
    async propose(id, given = {}) {
      open()
      refuseUnlessFit('proposal', given, PROPOSAL)
      const { graph, group: plan } = await graphOf(id, 'plan', 'run')
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
      refuseUnlessCarried(payload)
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

/** A digest that is misspelt would bind nobody, and whoever proposes again does not say how many must agree. */
const DECISION: Fields = {
  status: anything,
  decided_by_role: needed(text),
  reason: anything,
  decision_id: uuid,
  digest: anything,
}
const PROPOSAL: Fields = { requested_by_role: text, reason: anything, expires_ms: within(1, LONGEST_WAIT_MS) }

/** A plan that goes back to draft waits on; everything else has somewhere to go. */
const goesOn = (changes: readonly Change[]): boolean =>
  !changes.some((change) => change.kind === 'node_update' && change.node === 'plan' && change.set.status === 'draft')
