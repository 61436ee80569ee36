import { AsyncLocalStorage } from 'node:async_hooks'
import type { ActionLayer } from '../ael/layer.ts'
import type { Clock } from '../protocol/clock.ts'
import { eachOf } from '../protocol/each.ts'
import { NotFound } from '../protocol/errors.ts'
import { sparing, TOLD_AGAIN_MS } from '../protocol/reporter.ts'
import { atMost, slept, unlessAborted } from '../protocol/waiting.ts'
import { INDEX, type TimerRow, type Whereabouts } from '../psg/indexes.ts'
import { commitStill } from '../psg/insist.ts'
import { CONTEXTS_AT_ONCE } from '../psg/open-graphs.ts'
import { type Project, upToDate } from '../psg/project.ts'
import { thisHolder } from '../vsl/holder.ts'
import { DRAIN_MS } from './calls.ts'
import { dueRuns, type Keeper, type KeeperOptions, keep } from './keeper.ts'
import type { LeftRuns } from './left-runs.ts'
import type { LiveRun } from './live.ts'
import type { Mine } from './mine.ts'
import { TTL_MS } from './owner.ts'
import type { Patiently } from './patiently.ts'
import { PATROL_MS } from './runner.ts'
import type { RuntimeOptions } from './runtime.ts'
import { isDue } from './timers.ts'
import { unlessSilent } from './unless-silent.ts'
import { comeDue } from './waiting-runs.ts'

type Asked = Pick<RuntimeOptions, 'leaseTtlMs' | 'patrolMs' | 'quietMs' | 'drainMs'>

export interface PatrolOptions extends Asked {
  readonly project: Project
  readonly layer: ActionLayer
  readonly live: Map<string, LiveRun>
  readonly left: LeftRuns
  readonly patiently: Patiently
  readonly children: KeeperOptions['children']
  readonly mine?: Mine | undefined
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

/** Looks after contexts: those it is pointed to, and round after round those that nobody looks after. */
export interface Patrol {
  /** Owns a context and drives its runs, unless we do already or somebody else does. */
  look(context: string): Promise<Keeper | undefined>
  /** Who looks after a context here, if somebody does. */
  keeperOf(context: string): Promise<Keeper | undefined>
  /** Lets what is under way come to a boundary, hands over, stops; without waiting for it once `signal` is aborted. */
  close(signal?: AbortSignal): Promise<void>
}

export function patrol(options: PatrolOptions): Patrol {
  const { project, clock, mine, left } = options
  const onError = sparing(options.onError, TOLD_AGAIN_MS, clock)
  const { store } = project
  const holder = thisHolder(clock.uuid())
  const keepers = new Map<string, Promise<Keeper | undefined>>()
  /** When a context was found to be somebody else's. */
  const others = new Map<string, number>()
  /** Plans whose timers came due and woke nobody, since they are paused, and the last of these: until they run, nothing comes of it. */
  let inVain = new Map<string, string>()
  /** By our clock. What came before the first is not known: all timers are looked at, but not by those who come and go with a few runs. */
  let lastRound = options.mine ? 0 : Number.POSITIVE_INFINITY
  const drain = new AbortController()
  const stop = new AbortController()
  const ttlMs = options.leaseTtlMs ?? TTL_MS
  const apart = AsyncLocalStorage.snapshot()
  const forKeepers = { ...options, store, holder, ttlMs, drain: drain.signal, apart, onError }

  async function look(context: string): Promise<Keeper | undefined> {
    const begun = keepers.get(context)
    if (begun) {
      const known = await begun
      await known?.graph.refresh()
      if (!known || known.takeUpAll() || drain.signal.aborted) return known
      await known.done // it was about to leave
      return look(context)
    }
    const keeping = project.context(context).then((graph) => keep(graph, forKeepers))
    keepers.set(context, keeping)
    const forget = () => {
      if (keepers.get(context) === keeping) keepers.delete(context)
    }
    keeping.then((keeper) => (keeper ? keeper.done.then(forget) : forget()), forget)
    const keeper = await keeping
    if (keeper) others.delete(context)
    else others.set(context, clock.now())
    return keeper
  }

  /** Somebody else had it a moment ago, and if he dies his lease lasts that long. A few contexts may be asked for often. */
  function isOthers(context: string): boolean {
    const since = clock.now() - (others.get(context) ?? Number.NEGATIVE_INFINITY)
    return !options.mine && since >= 0 && since < ttlMs / 2
  }

  /** What has nobody: runs whose owner is gone, timers that came due. */
  async function round(): Promise<void> {
    for (const context of others.keys()) if (!isOthers(context)) others.delete(context) // what has ended there is asked for by nobody
    const contexts = new Set<string>()
    const began = clock.now()
    const found = new Set<string>()
    const away = new Set<string>()
    for await (const { graph, group } of runs()) {
      found.add(group)
      if (await left.staysAway(group, async () => (await store.head(graph)).revision)) away.add(group)
      else contexts.add(graph)
    }
    left.forgetOthers(found, began)
    const due = new Map<string, { readonly context: string; readonly last: string }>()
    const wasSetBack = clock.now() < lastRound
    lastRound = clock.now()
    for await (const [key, row] of store.scan('timer/', { passOver })) {
      const at = Date.parse(key.split('/')[1]!)
      if (at > clock.now() && !wasSetBack) break
      const { graph, group, wait_ms } = row as TimerRow
      if ((!mine || mine.has(group)) && !away.has(group) && isDue({ due: at, wait_ms }, clock.now()))
        due.set(group, { context: graph, last: key })
    }
    const before = inVain
    inVain = new Map()
    // A context that cannot be looked at keeps nobody from the others.
    await eachOf(due, CONTEXTS_AT_ONCE, async ([plan, { context, last }]) => {
      const woke = !found.has(plan) && before.get(plan) === last ? false : await wakeUp(context, plan).catch(onError)
      if (woke === false) inVain.set(plan, last)
      if (!woke) return
      if (keepers.has(context))
        await look(context).catch(onError) // the keeper of its neighbours does not look for it
      else contexts.add(context)
    })
    await eachOf(contexts, CONTEXTS_AT_ONCE, async (context) => {
      if (!keepers.has(context) && !isOthers(context)) await look(context).catch(onError)
    })
  }

  /** Where something runs. What others run costs nothing to who has come for a few. */
  async function* runs(): AsyncIterable<Whereabouts> {
    if (!mine) for await (const [, where] of store.scan(INDEX.running(''), { passOver })) yield where as Whereabouts
    else {
      const keys = [...mine.values()].map(INDEX.running)
      if (keys.length > 0) for (const where of (await store.getMany(keys)).values()) yield where as Whereabouts
    }
  }

  /** What it seals keeps nobody from the others, either. */
  const passOver = (key: string): void =>
    onError(new NotFound('key', key, 'runs that it seals are left to a process that has it; give it to this one too'))

  /** Puts a run that only waited back among the running, or ends it. True when its owner has something to do. */
  async function wakeUp(context: string, plan: string): Promise<boolean> {
    const graph = await upToDate(project, { graph: context, group: plan })
    const by = { actor: 'runtime', reason: 'its time has come', termination: 'timeout' }
    const woke = await commitStill(graph, () => comeDue(graph, plan), by)
    return woke || dueRuns(graph, new Set([plan])).length > 0
  }

  const abandonNow = (keeper: Keeper | undefined) => keeper?.abandon(new Error('the runtime is closing'))

  async function rounds(): Promise<void> {
    do await round().catch(onError)
    while (await slept(clock, options.patrolMs ?? PATROL_MS, stop.signal))
  }

  const walking = rounds()
  return {
    look,
    keeperOf: async (context) => keepers.get(context),
    async close(signal) {
      stop.abort()
      drain.abort()
      const all = Promise.all(
        [...keepers.values()].map(async (keeping) => (await keeping.catch(() => undefined))?.done),
      )
      const drained = atMost(options.drainMs ?? DRAIN_MS, all, clock)
      await (signal ? unlessAborted(drained, signal) : drained)
      for (const keeping of keepers.values()) void keeping.then(abandonNow, () => undefined)
      await unlessSilent(Promise.all([all, walking]), clock)
    },
  }
}
