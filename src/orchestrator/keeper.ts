import type { AsyncLocalStorage } from 'node:async_hooks'
import type { ActionLayer } from '../ael/layer.ts'
import { Refused, RuleViolation } from '../protocol/errors.ts'
import { isTerminal } from '../protocol/lifecycle.ts'
import { inWords } from '../protocol/thrown.ts'
import type { Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { type Wakeable, wakeable } from '../vsl/wakeable.ts'
import type { Children } from './children.ts'
import { ends, sessionHasEnded } from './ending.ts'
import type { LeftRuns } from './left-runs.ts'
import type { Ending, LiveRun, RunOptions } from './live.ts'
import type { Mine } from './mine.ts'
import { type OwnerOptions, type Ownership, own } from './owner.ts'
import type { Patiently } from './patiently.ts'
import { drive, giveUp, look, type RunnerEnd, type RunnerOptions } from './runner.ts'
import { takeUp } from './take-up.ts'
import { isDue, latestEnd } from './timers.ts'

export interface KeeperOptions extends OwnerOptions, RunnerOptions {
  readonly layer: ActionLayer
  readonly patiently: Patiently
  readonly children: Pick<Children, 'cancel' | 'isOrphan'>
  readonly onError: (error: unknown) => void
  /** Which plans' runs are driven: all when absent. */
  readonly mine?: Pick<Mine, 'has'> | undefined
  /** Which runs are left to others, because this process lacks something that they need. */
  readonly left: Pick<LeftRuns, 'leaves' | 'gaveUp'>
  /** The runs that this process drives, by plan, so that the action layer can find the run that an action belongs to. */
  readonly live: Map<string, LiveRun>
  /** Calls on behalf of nobody: a run that begins while one request commits or decides would carry out its steps as that one's. */
  readonly apart: ReturnType<typeof AsyncLocalStorage.snapshot>
}

export type Settled = RunnerEnd | 'held'

/** A context that this process owns, with the runs in it. */
export interface Keeper {
  readonly graph: ProjectGraph
  readonly runs: ReadonlyMap<string, LiveRun>
  /**
   * Takes up every run that wants somebody and is neither driven yet nor left to other processes; those that are driven look round. False when nothing
   * is begun here any more: the context is about to be free.
   */
  takeUpAll(): boolean
  /** Ends what is under way and leaves it to the next owner. */
  abandon(reason: Error): void
  /** When a run has ended, was laid down, is held up, or is no longer ours. */
  settled(run: string): Promise<Settled> | undefined
  /** Resolves when nothing is left to do here; the context is then free for anybody. */
  readonly done: Promise<void>
}

const MOST_ATTEMPTS = 3

/** A run that somebody drives. It may be taken up anew while it is driven, and whoever waits for it is told all the same. */
interface Driven {
  readonly end: Promise<RunnerEnd>
  /** Woken whenever it stands still. */
  readonly still: Wakeable
}

/** Takes a context and drives its runs until none is left; `undefined` while somebody else has it. */
export async function keep(graph: ProjectGraph, options: KeeperOptions): Promise<Keeper | undefined> {
  const ownership = await own(graph.id, options)
  if (!ownership) return undefined
  try {
    if (graph.revision !== ownership.revision) await graph.refresh() // the last owner has written since we read
  } catch (error) {
    await ownership.release().catch(options.onError)
    throw error
  }
  return keeping(graph, ownership, options)
}

async function keeping(graph: ProjectGraph, ownership: Ownership, options: KeeperOptions): Promise<Keeper> {
  const runs = new Map<string, LiveRun>()
  const driving = new Map<string, Driven>()
  let leaving = false
  const { setBacks } = graph
  const unwatch = graph.watch(() => {
    if (graph.setBacks === setBacks) keeper.takeUpAll()
    else ownership.abandon(new Error('the store was set back')) // what is under way was begun by a story that is gone
  })
  let finish: () => void = () => undefined
  const done = new Promise<void>((resolve) => {
    finish = resolve
  })

  const leave = async () => {
    if (driving.size > 0 || leaving) return
    leaving = true // nothing is begun under a lease that is being given back
    unwatch()
    await ownership.release().catch(options.onError)
    finish()
  }

  const keeper: Keeper = {
    graph,
    runs,
    done,
    settled(run) {
      const driven = driving.get(run)
      return driven && Promise.race([driven.end, driven.still.wait().then(() => 'held' as const)])
    },
    abandon: ownership.abandon,
    takeUpAll() {
      if (leaving || ownership.lost.aborted || options.drain.aborted) return false
      for (const run of runs.values()) look(run)
      for (const node of dueRuns(graph, options.mine))
        if (!driving.has(node.id) && !options.left.leaves(graph, node)) {
          const still = wakeable()
          driving.set(node.id, { end: options.apart(driveOne, node, still), still })
        }
      return true
    },
  }

  async function driveOne({ id, data }: Node<'run'>, still: Wakeable): Promise<RunnerEnd> {
    try {
      return await driven(id, still)
    } catch (error) {
      options.onError(error)
      return await driven(id, still, error).catch((again) => {
        options.onError(isStuck(id, again))
        options.left.gaveUp(data.plan_id)
        return 'lost' as const
      })
    } finally {
      driving.delete(id)
      queueMicrotask(() => void leave())
    }
  }

  /**
   * Takes a run up as it stands in the graph and drives it; or ends it, when that went wrong before. A tick that is refused because others have written
   * since it looked, or an approval expired before its commit, is nobody's fault: then it is taken up as it stands by now.
   */
  async function driven(id: string, still: Wakeable, wrong?: unknown, attempt = 1): Promise<RunnerEnd> {
    const isOrphan = graph.get('run', id)!.data.parent !== undefined && (await orphaned(id))
    const run = takeUp(graph, graph.get('run', id)!, ownership, {
      layer: options.layer,
      patiently: options.patiently,
      cancelChild: options.children.cancel,
      still,
    })
    if (wrong !== undefined) giveUp(run, wrong)
    else if (isOrphan) ends(run, ORPHANED)
    runs.set(id, run)
    options.live.set(run.plan, run)
    try {
      return await drive(run, options)
    } catch (error) {
      run.abort.abort(error) // what it has under way is nobody's any more
      const isOvertaken = error instanceof RuleViolation && (graph.revision > run.looked || isTooLate(error))
      if (!isOvertaken || attempt === MOST_ATTEMPTS) throw error
    } finally {
      runs.delete(id)
      options.live.delete(run.plan)
    }
    return driven(id, still, wrong, attempt + 1)
  }

  /** Where nobody can say it goes on: it is asked again when it is taken up the next time. */
  async function orphaned(id: string): Promise<boolean> {
    const ask = () => options.children.isOrphan(graph.get('run', id)!.data)
    return options.patiently(ask, ownership.lost).catch((error) => {
      options.onError(error)
      return false
    })
  }

  keeper.takeUpAll()
  if (driving.size === 0) await leave()
  return keeper
}

const ORPHANED: Ending = {
  status: 'cancelled',
  reason: 'user_cancel',
  error: { code: 'cancelled', message: 'what it was submitted for has ended' },
}

/** Does it say no more than that what was approved may not begin, as when the time for that is over? */
const isTooLate = ({ violations }: RuleViolation): boolean =>
  violations.every(({ rule }) => rule === 'approval.action' || rule === 'approval.bound')

const isStuck = (run: string, cause: unknown): Refused =>
  new Refused(`run ${run} can be neither taken up nor ended: ${inWords(cause)}`, 'it is tried again by and by', {
    cause,
  })

/** Runs that want somebody, oldest first. */
export function dueRuns(graph: ProjectGraph, mine?: Pick<Mine, 'has'>): readonly Node<'run'>[] {
  const found: Node<'run'>[] = []
  for (const node of graph.state.activeRuns())
    if ((!mine || mine.has(node.data.plan_id)) && wantsSomebody(graph, node)) found.push(node)
  return found.sort((a, b) => a.born - b.born)
}

/**
 * Does a run go on if somebody takes it up? It runs, or goes back; somebody has asked something of it; or it is to be ended, because its plan or its
 * session is over, or its time is while it is paused. Where that time has to begin anew, too.
 */
export function wantsSomebody(graph: ProjectGraph, { data }: Node<'run'>): boolean {
  const { phase, requested, plan_id } = data
  if (phase === 'running' || phase === 'undoing' || requested !== undefined) return true
  const plan = graph.get('plan', plan_id)
  const { session } = data.options as RunOptions
  const latest = phase === 'paused' ? latestEnd(data) : undefined
  return (
    (plan !== undefined && isTerminal('plan', plan.data.status)) || // somebody withdrew it
    (session !== undefined && plan?.data.status === 'in_progress' && sessionHasEnded(graph, session)) ||
    (latest !== undefined && isDue(latest, graph.clock.now()))
  )
}
