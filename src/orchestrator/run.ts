import { Closed, NotFound } from '../protocol/errors.ts'
import { refuseUnlessFit, signal as signalField } from '../protocol/fields.ts'
import { leavable } from '../protocol/leavable.ts'
import { eitherOf, onAbort } from '../protocol/on-abort.ts'
import type { RunResult } from '../protocol/run-result.ts'
import { slept, unlessAborted } from '../protocol/waiting.ts'
import type { BornEvent, EntryBody, Node, Parent, Run } from '../psg/change.ts'
import { isFieldChange } from '../psg/field-change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { eventsIn } from '../psg/told.ts'
import type { Settled } from './keeper.ts'
import type { Lacking } from './lacking.ts'
import { resultOf, runHasEnded } from './result.ts'
import { isOverdue, needsSomebody, type Standing } from './standing.ts'
import type { Placeless } from './without-place.ts'

/** A run to hold on to: wait for it, listen to it, stop it. Letting go of it changes nothing. */
export interface RunHandle extends AsyncIterable<BornEvent & { readonly revision: number }> {
  readonly run_id: string
  readonly plan_id: string
  readonly context_id: string
  readonly trace_id: string
  readonly phase: Run['phase']
  /** The run that it goes on from, if it is a rerun. */
  readonly rerun_of: string | undefined
  /** Whose child it is, if it is one: it is cancelled when that action ends, unless that is completed. */
  readonly parent: Parent | undefined
  /** What this process would need to go on with the run and does not have: the run waits for a process that does, unless one is at it already. */
  readonly lacking: Lacking | undefined
  /** What of the run waits for a place of `atOnce` in this process; nothing of a run that another one drives, which alone could say. */
  readonly withoutPlace: readonly Placeless[]
  /**
   * Resolves when the run has ended, wherever it runs. An aborted signal ends the waiting, not the run. Throws Unavailable when the store is away as it
   * is asked: the run is none the worse for it, and may be waited for again.
   */
  result(signal?: AbortSignal): Promise<RunResult>
  /**
   * Resolves when the run has ended, or can do nothing until somebody comes: a person who decides or resumes it, a signal, whoever lets its context
   * go on; also when all that it has under way waits for children which can do nothing either. In a runtime that looks after a few runs only, also
   * when it lacks something that the run needs.
   */
  rest(signal?: AbortSignal): Promise<'ended' | 'waiting'>
  /** The run's events from its beginning, then live, until it has ended. Who leaves, also while nothing comes, leaves nothing behind. */
  events(options?: { signal?: AbortSignal }): AsyncIterable<BornEvent & { readonly revision: number }>
  cancel(): Promise<void>
}

export interface RunHands {
  readonly cancel: () => Promise<void>
  /** Settles when this process stops driving the run, or cannot go on with it; `undefined` when it does not drive it. */
  readonly driving: () => Promise<Settled | undefined>
  readonly lacking: () => Lacking | undefined
  readonly withoutPlace: () => readonly Placeless[]
  /** How the run stands by its children. */
  readonly standing: () => Promise<Standing>
  /** Resolves when a child has come to rest. */
  readonly childRests: (run: string, signal: AbortSignal) => Promise<unknown>
  /** Came for its runs, so that nobody else is counted on to go on with them. */
  readonly isAlone: boolean
  /** Aborted when the runtime is closed: whoever waits for others to go on with the run is not kept, also where the store stays open. */
  readonly closed: AbortSignal
}

/** How often who waits for another process looks whether the store still has what was seen of it. */
const LOOK_AGAIN_MS = 30_000
/** How soon who waits for a run to rest looks whether a child is there that it was about to submit. */
const SUBMITTED_MS = 1_000

export function runHandle(graph: ProjectGraph, node: Node<'run'>, hands: RunHands): RunHandle {
  const { run_id, plan_id, trace_id } = node.data

  /** Whoever waits no longer need not wait for what this process has in hand either; nor need anybody once it was closed beside a store that is silent. */
  const driven = (asked: AbortSignal | undefined) => {
    const { signal, unlink } = eitherOf(hands.closed, asked)
    return unlessAborted(hands.driving(), signal).finally(unlink)
  }

  function events(options: { signal?: AbortSignal } = {}) {
    const left = new AbortController()
    return leavable(told(options, left.signal), () => left.abort())
  }

  async function* told(options: { signal?: AbortSignal }, left: AbortSignal) {
    refuseUnlessFit('events', options, { signal: signalField })
    const asked = eitherOf(left, options.signal)
    const { signal, seen, end } = unlessSeen(() => graph.revision === 0, asked.signal)
    try {
      for await (const entry of graph.store.read(graph.id, { after: node.born - 1, follow: true, signal })) {
        const body = entry.body as unknown as EntryBody
        for (const born of eventsIn(entry)) if (born.plan_id === plan_id) yield { ...born, revision: entry.revision }
        if (endsRun(body, run_id)) return
      }
    } finally {
      end()
      asked.unlink()
    }
    if (seen()) throw new NotFound('run', run_id) // it was taken away before its end was read
  }

  /**
   * A signal that is aborted by whoever asks, by the close, and once the graph shows something. The journal does not tell those who follow it what was
   * taken out of it, so the graph is looked at now and then.
   */
  function unlessSeen(isSeen: () => boolean, asked: AbortSignal | undefined) {
    const shown = new AbortController()
    const over = eitherOf(hands.closed, asked)
    const { signal, unlink } = eitherOf(over.signal, shown.signal)
    const unwatch = graph.watch(() => isSeen() && shown.abort())
    const found = new AbortController()
    const forget = onAbort(signal, () => found.abort()) // also where somebody has stopped reading in the middle, and never says so
    void lookAgain(found.signal)
    return {
      signal,
      seen: () => shown.signal.aborted && !over.signal.aborted,
      end() {
        found.abort()
        forget()
        unwatch()
        unlink()
        over.unlink()
      },
    }
  }

  /** Follows the journal from a revision until somebody has committed what is waited for, or the store was found to have lost that revision. */
  async function elsewhere(after: number, until: (body: EntryBody) => boolean, asked?: AbortSignal): Promise<void> {
    const { setBacks } = graph
    const { signal, seen: lost, end } = unlessSeen(() => graph.setBacks !== setBacks, asked)
    try {
      for await (const entry of graph.store.read(graph.id, { after, follow: true, signal })) {
        await graph.refresh()
        if (until(entry.body as unknown as EntryBody)) return
      }
    } finally {
      end()
    }
    asked?.throwIfAborted()
    if (lost()) return
    throw new Closed(hands.closed.aborted ? 'the runtime' : 'the store')
  }

  /** Nor does it tell anything to who follows from beyond its end, as when an older copy was put in the store's place. */
  async function lookAgain(signal: AbortSignal): Promise<void> {
    while (await slept(graph.clock, LOOK_AGAIN_MS, signal)) await graph.refresh().catch(() => undefined) // away: it is asked again
  }

  /** Until there is news of the run, or of the child that it is behind. True when nobody is there to pause it, as was asked. */
  async function heardOf(from: number, isStill: boolean, standing: Standing, signal?: AbortSignal): Promise<boolean> {
    const news = async (until: AbortSignal | undefined) => {
      if ((await driven(until)) !== undefined) return false
      if (isStill) return true
      if (graph.revision === from) await elsewhere(from, () => true, until)
      return false
    }
    if (standing === 'goes_on' || standing === 'still') return news(signal)
    const ofChild = async (until: AbortSignal) => {
      if (standing === 'submitting') await slept(graph.clock, SUBMITTED_MS, until)
      else await hands.childRests(standing.behind, until)
      return false
    }
    return firstOf([news, ofChild], signal)
  }

  return {
    run_id,
    plan_id,
    trace_id,
    context_id: graph.id,
    rerun_of: node.data.rerun_of,
    parent: node.data.parent,
    get phase() {
      return graph.get('run', run_id)?.data.phase ?? 'ended'
    },
    get lacking() {
      return hands.lacking()
    },
    get withoutPlace() {
      return hands.withoutPlace()
    },
    async result(signal) {
      refuseUnlessFit('wait', { signal }, { signal: signalField })
      for (;;) {
        const from = graph.revision // the end may come while we ask who drives it
        if (await runHasEnded(graph, run_id, plan_id)) break
        signal?.throwIfAborted()
        const end = await driven(signal)
        if (end === 'ended' || end === 'held' || graph.revision !== from) continue
        await elsewhere(from, (body) => endsRun(body, run_id), signal)
      }
      return resultOf(graph, run_id, plan_id)
    },
    async rest(signal) {
      refuseUnlessFit('wait', { signal }, { signal: signalField })
      let rested: string | undefined
      for (;;) {
        if (await runHasEnded(graph, run_id, plan_id)) return 'ended'
        const from = graph.revision
        const needs = needsSomebody(graph, node) && !isOverdue(graph, run_id)
        const isStill = needs || (hands.isAlone && hands.lacking() !== undefined)
        if (isStill && !isPausing(graph, run_id)) return 'waiting'
        const standing = isStill ? 'goes_on' : await hands.standing()
        signal?.throwIfAborted()
        if (graph.revision !== from) continue // it went on while its children were looked at
        if (standing === 'still') return 'waiting'
        const behind = typeof standing === 'object' ? standing.behind : undefined
        const isBack = behind !== undefined && behind === rested // the child rested a moment ago: who asks it again at once may never stop asking
        rested = isBack ? undefined : behind
        if (await heardOf(from, isStill, isBack ? 'submitting' : standing, signal)) return 'waiting' // who was about to pause it has left it so
      }
    },
    events,
    [Symbol.asyncIterator]: () => events()[Symbol.asyncIterator](),
    cancel: hands.cancel,
  }
}

/** What the first of these waits gives; the others are told to end. */
async function firstOf<T>(waits: readonly ((until: AbortSignal) => Promise<T>)[], asked?: AbortSignal): Promise<T> {
  const over = new AbortController()
  const { signal, unlink } = eitherOf(over.signal, asked)
  try {
    return await Promise.race(waits.map((wait) => wait(signal)))
  } finally {
    over.abort(OVER)
    unlink()
  }
}
const OVER = new Error('the waiting is over')

/** Is its owner about to lay it down as paused? */
const isPausing = (graph: ProjectGraph, run: string): boolean => graph.get('run', run)!.data.pausing === true

const endsRun = (body: EntryBody, run: string): boolean =>
  body.changes.some(
    (change) =>
      change.key.endsWith(`/run/${run}`) &&
      (isFieldChange(change) ? change.now : change.after?.data)?.phase === 'ended',
  )
