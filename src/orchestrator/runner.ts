import { MplpError } from '../protocol/errors.ts'
import { keepWatched, onAbort } from '../protocol/on-abort.ts'
import type { RunError } from '../protocol/run-error.ts'
import { inWords } from '../protocol/thrown.ts'
import { takeOff } from './dispatch.ts'
import { ends, sessionHasEnded } from './ending.ts'
import { heldUpBy } from './held-up.ts'
import { land } from './land.ts'
import { landTick, staysHere } from './land-tick.ts'
import { letGo } from './let-go.ts'
import type { Flight, LiveRun } from './live.ts'
import { openSignals } from './signals.ts'
import { decideTick } from './tick.ts'
import { nextDue, ring, timerOf } from './timers.ts'
import { untold } from './untold.ts'
import { linesTold } from './usage.ts'

export interface RunnerOptions {
  /** Stops at the next boundary: what is under way may end, nothing new starts. */
  readonly drain: AbortSignal
  /** Quiet for this long, a run looks at what others commit, and one that only waits is laid down: 50 ms. */
  readonly quietMs?: number
  /** How often somebody looks for runs that were laid down and have come due: 1 s. */
  readonly patrolMs?: number
}

/** How it went: ended, laid down until something comes, handed over, or taken away. */
export type RunnerEnd = 'ended' | 'parked' | 'drained' | 'lost'

const QUIET_MS = 50
export const PATROL_MS = 1_000
const NONE: readonly Flight[] = []
const OVER = new Error('the waiting is over')

/** Drives a run: tick, commit, dispatch, wait, until it is over or no longer ours. */
export async function drive(run: LiveRun, options: RunnerOptions): Promise<RunnerEnd> {
  const bell = alarm()
  run.wake = bell.ring
  const unwatch = run.graph.watch(() => look(run))
  const stopped = () => {
    if (run.owner.lost.aborted) run.abort.abort(run.owner.lost.reason)
    bell.ring()
  }
  const forgets = [options.drain, run.owner.lost].map((signal) => onAbort(signal, stopped))
  forgets.push(keepWatched(run.abort.signal))
  let departing: readonly Flight[] = []
  try {
    let first = true
    for (let turn = 1; ; turn++) {
      if (run.owner.lost.aborted) return 'lost'
      if (options.drain.aborted && isStill(run)) {
        if (run.flying.size > 0) await leaveWaiting(run)
        return 'drained'
      }
      bell.reset()
      ring(run)
      if (first || run.inbox.length > 0 || run.told.length > 0) {
        const decided = decideTick(run, !first && options.drain.aborted)
        first = false
        departing = decided.departures
        const landed = await landTick(run, decided)
        if (!landed) {
          run.abort.abort(new Error('the context is no longer ours'))
          return 'lost'
        }
        if (decided.end) return 'ended'
        departing = NONE
        for (const flight of decided.departures) void takeOff(run, flight)
        if (decided.departures.length > 0 && run.inbox.length === 0) await breath(turn) // what needs no waiting is there then
        if (run.parents.size > 0) await letGo(run)
        if (run.inbox.length > 0) continue
      }
      if (options.drain.aborted && isStill(run)) continue
      if ((await quiet(run, bell, options)) && (await layDown(run))) return 'parked'
    }
  } finally {
    staysHere(run, departing)
    run.line?.close()
    unwatch()
    for (const forget of forgets) forget()
  }
}

/** Has it nothing under way but waits for children? When these are begun anew they find their child again. */
const isStill = ({ flying, awaiting }: LiveRun): boolean => flying.size === awaiting.size

/** Cuts off what only waits for children, and stores that it did no more: it may wait for longer than many a process lives. */
async function leaveWaiting(run: LiveRun): Promise<void> {
  const flights = [...run.flying.values()]
  run.abort.abort(new Error('the runtime is closing')) // before anything is waited for: none of them comes back from its wait meanwhile
  const said = untold(run)
  const changes = flights.map(({ action: { action_id: id }, execution_id }) => {
    const set = { ...said.get(id), left_waiting: execution_id }
    return { kind: 'node_update', node: 'action', id, set } as const
  })
  const events = run.told.splice(0)
  const reason = 'is left while it waits for children'
  await land(run, { changes: [...changes, ...linesTold(run, events)], events, reason })
}

/** Something that the run may wait for has changed. */
export function look(run: LiveRun): void {
  run.inbox.push({ kind: 'look' })
  run.wake()
}

/** Waits until something arrives. True when the run has nothing under way, waits for no place, and may be laid down. */
async function quiet(run: LiveRun, bell: Alarm, options: RunnerOptions): Promise<boolean> {
  const { clock } = run.graph
  const due = nextDue(run)
  const stop = new AbortController()
  const sleep = (ms: number) =>
    clock.sleep(Math.max(0, ms), stop.signal).then(
      () => 'slept' as const,
      () => 'rung' as const,
    )
  try {
    const rung = bell.wait().then(() => 'rung' as const)
    const wait = options.quietMs ?? QUIET_MS
    const untilDue = due === undefined ? Number.POSITIVE_INFINITY : due - clock.now()
    if ((await Promise.race([rung, sleep(Math.min(wait, untilDue))])) === 'rung' || untilDue <= wait) return false
    const held = heldUpBy(run.graph, run.options)
    if (run.held && !held) {
      run.inbox.push({ kind: 'look' }) // whoever let it go on did so in this process, which the graph does not tell to those who watch it
      return false
    }
    if (run.flying.size === 0 && !run.ending) {
      // Laid down, it would not be found by whoever lets its context go on.
      if (held && !run.paused) run.still.wake()
      else if (run.paused) return true
      else if (run.waiting.size > 0 && run.line?.isEmpty !== false && !isSoonDue(run, options)) return true
    } else if (isStill(run)) run.still.wake() // its children may be
    const heard = listen(run, stop.signal)
    await Promise.race([rung, heard, ...(due === undefined ? [] : [sleep(due - clock.now())])])
    return false
  } finally {
    stop.abort(OVER) // without a reason each would make a DOMException with its stack
  }
}

/** A retry, or the timeout of a wait, that is due before the next round would wait for that, ten times as long as it was told to. */
function isSoonDue(run: LiveRun, { patrolMs = PATROL_MS }: RunnerOptions): boolean {
  const soon = run.graph.clock.now() + patrolMs
  return [...run.waiting.values()].some((waiting) => {
    const timer = waiting.on === 'confirm' ? undefined : timerOf(waiting)
    return timer !== undefined && timer.due <= soon
  })
}

/**
 * Leaves a run that only waits: whoever answers, and whatever timer comes due, puts it back among the running. Decided within the commit: an answer
 * that crossed with it found the run running, so nobody else would wake it.
 */
async function layDown(run: LiveRun): Promise<boolean> {
  const phase = run.paused ? 'paused' : 'waiting'
  const set = { phase, ...(run.paused && { pausing: undefined }) } as const
  const changes = () => {
    if (isAnswered(run)) throw ANSWERED
    return [{ kind: 'node_update', node: 'run', id: run.id, set } as const]
  }
  try {
    return await land(run, { changes, events: [], reason: `the run is ${phase}` })
  } catch (error) {
    if (error !== ANSWERED) throw error
    run.inbox.push({ kind: 'look' })
    return false
  }
}
const ANSWERED = new Error('what it waited for has come')

function isAnswered(run: LiveRun): boolean {
  if (run.graph.get('run', run.id)?.data.requested !== undefined) return true
  if (run.session && sessionHasEnded(run.graph, run.session.options)) return true
  if (run.paused) return false
  const signals = openSignals(run)
  return [...run.waiting.values()].some(
    (waiting) =>
      (waiting.on === 'confirm' && run.graph.get('confirm', waiting.confirm)?.data.status !== 'pending') ||
      (waiting.on === 'signal' && signals.has(waiting.name)),
  )
}

/** Somebody else may write to the graph: cancel, decide, signal. Only a run that is quiet needs to listen; a busy one meets it in its own commits. */
function listen(run: LiveRun, signal: AbortSignal): Promise<void> {
  const { graph, patiently } = run
  const after = graph.revision // also when it is asked again: what this process has committed meanwhile is news too
  const news = async () => {
    for await (const _ of graph.store.read(graph.id, { after, follow: true, signal })) return graph.refresh()
  }
  return patiently(news, signal)
}

/** Lets what needs no waiting go on first; now and then also whatever else the process has to do. */
const breath = (turn: number) =>
  new Promise<void>((resolve) => (turn % OTHERS_TURN === 0 ? setImmediate(resolve) : process.nextTick(resolve)))
const OTHERS_TURN = 16

interface Alarm {
  readonly ring: () => void
  reset(): void
  wait(): Promise<void>
}

/** Remembers a ring that nobody waited for yet. */
function alarm(): Alarm {
  let rung = false
  let sleeper: (() => void) | undefined
  return {
    ring() {
      rung = true
      sleeper?.()
    },
    reset() {
      rung = false
    },
    wait() {
      return new Promise<void>((resolve) => {
        sleeper = () => {
          rung = false
          sleeper = undefined
          resolve()
        }
        if (rung) sleeper()
      })
    },
  }
}

/** A rule refused what a tick decided: our own fault, so the run ends as failed rather than hang. */
export function giveUp(run: LiveRun, error: unknown): void {
  const told: RunError =
    error instanceof MplpError
      ? { code: error.code, message: error.message }
      : { code: 'runtime_exception', message: inWords(error) }
  ends(run, { status: 'failed', reason: 'error', error: told })
}
