import type { ActionLayer } from '../ael/layer.ts'
import type { Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import type { LiveRun } from './live.ts'
import { type OwnerOptions, type Ownership, own } from './owner.ts'
import { takeUp } from './recover.ts'
import { drive, giveUp, look, type RunnerEnd } from './runner.ts'

export interface KeeperOptions extends OwnerOptions {
  readonly layer: ActionLayer
  readonly drain: AbortSignal
  readonly quietMs?: number
  readonly onError: (error: unknown) => void
  /** Which plans' runs are driven: all when absent. */
  readonly mine?: (plan: string) => boolean
  /** The runs that this process drives, by plan, so that the action layer can find the run that an action belongs to. */
  readonly live: Map<string, LiveRun>
}

/** A context that this process owns, with the runs in it. */
export interface Keeper {
  readonly graph: ProjectGraph
  readonly runs: ReadonlyMap<string, LiveRun>
  /** Takes up every run of the context that is not being driven and not merely waiting, and has the others look round. */
  takeUpAll(): void
  /** When a run has ended, was laid down, or is no longer ours. */
  settled(run: string): Promise<RunnerEnd> | undefined
  /** Resolves when nothing is left to do here; the context is then free for anybody. */
  readonly done: Promise<void>
}

/** Takes a context and drives its runs until none is left; `undefined` while somebody else has it. */
export async function keep(graph: ProjectGraph, options: KeeperOptions): Promise<Keeper | undefined> {
  const ownership = await own(graph.id, options)
  if (!ownership) return undefined
  await graph.refresh() // the last owner may have written since we read
  const runs = new Map<string, LiveRun>()
  const driving = new Map<string, Promise<RunnerEnd>>()
  const unwatch = graph.watch(() => keeper.takeUpAll())
  let finish: () => void = () => undefined
  const done = new Promise<void>((resolve) => {
    finish = resolve
  })

  const leave = async () => {
    if (driving.size > 0) return
    unwatch()
    await ownership.release().catch(options.onError)
    finish()
  }

  const keeper: Keeper = {
    graph,
    runs,
    done,
    settled: (run) => driving.get(run),
    takeUpAll() {
      if (ownership.lost.aborted || options.drain.aborted) return
      for (const run of runs.values()) look(run)
      for (const node of dueRuns(graph, options.mine)) {
        if (driving.has(node.id)) continue
        driving.set(node.id, driveOne(node))
      }
    },
  }

  async function driveOne(node: Node<'run'>): Promise<RunnerEnd> {
    const run = takeUp(graph, node, ownership as Ownership, options.layer)
    runs.set(run.id, run)
    options.live.set(run.plan, run)
    const runner = {
      drain: options.drain,
      ...(options.quietMs !== undefined && { quietMs: options.quietMs }),
    }
    try {
      return await drive(run, runner)
    } catch (error) {
      options.onError(error)
      giveUp(run, error)
      return await drive(run, runner).catch((again) => {
        options.onError(again)
        return 'lost' as const
      })
    } finally {
      runs.delete(run.id)
      options.live.delete(run.plan)
      driving.delete(run.id)
      queueMicrotask(() => void leave())
    }
  }

  keeper.takeUpAll()
  if (driving.size === 0) await leave()
  return keeper
}

/** Runs that want somebody: approved and not yet started, running, or to be resumed. */
function dueRuns(graph: ProjectGraph, mine: (plan: string) => boolean = () => true): readonly Node<'run'>[] {
  const found: Node<'run'>[] = []
  for (const node of graph.state.activeRuns()) {
    const { phase, requested, plan_id } = node.data
    if (!mine(plan_id)) continue
    if (phase === 'running' || phase === 'undoing' || requested !== undefined) found.push(node)
  }
  return found.sort((a, b) => a.born - b.born)
}
