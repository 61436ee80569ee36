import type { ActionLayer } from '../ael/layer.ts'
import type { Clock } from '../protocol/clock.ts'
import { NotFound } from '../protocol/errors.ts'
import type { Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { endingOf, isStillNeeded, type Lacking, lackingFor, type Need } from './lacking.ts'
import { latestEnd } from './timers.ts'

/** Runs that this process leaves to others, by plan: it lacks something that they need. */
export interface LeftRuns {
  /** What the process does not have of what an action asks for; nothing where an adapter cannot say, which is told. */
  readonly lacks: ActionLayer['lacks']
  /** It could neither be taken up nor be ended for that: it is left alone for a while, each time for longer. */
  gaveUp(plan: string): void
  lacking(graph: ProjectGraph, run: Node<'run'>): Lacking | undefined
  /** Must it be left? That is told of the first run that something is lacking for, and not of each. */
  leaves(graph: ProjectGraph, run: Node<'run'>): boolean
  /** True while there is no reason to look at the run of a plan again; `head` says how far its context has come. */
  staysAway(plan: string, head: () => Promise<number>): Promise<boolean>
  /** Forgets all that were not among those that wanted somebody, as they were read from `since` on. */
  forgetOthers(plans: ReadonlySet<string>, since: number): void
}

export interface LeftRunsOptions {
  readonly layer: ActionLayer
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

/** How long a run is left alone, at first and later, before its context is looked at again. */
const PAUSE_MS = 5_000
const LONGEST_PAUSE_MS = 30_000

interface Resting {
  looked: number
  pauseMs: number
}
interface Left extends Resting {
  readonly need: Need
  /** What is lacking. */
  readonly missing: string
  /** When it has to be ended, which anybody can do. */
  readonly latest: number
  /** Of its context, when it was last found so. */
  revision: number
}

export function leftRuns({ layer, clock, onError }: LeftRunsOptions): LeftRuns {
  const left = new Map<string, Left>()
  const hopeless = new Map<string, Resting>()
  /** What was told to be lacking: thousands of runs may wait for it. */
  const told = new Set<string>()

  /** Asked at each commit of the context, so it looks at nothing but what the run was left for. */
  const isStillLeft = (graph: ProjectGraph, run: Node<'run'>): boolean => {
    const known = left.get(run.data.plan_id)
    if (!known || !layer.lacks(known.need) || !isStillNeeded(graph, run, known.need)) return false
    known.revision = graph.revision
    return true
  }

  function mustLeave(graph: ProjectGraph, run: Node<'run'>): boolean {
    const { plan_id } = run.data
    if (isStillLeft(graph, run)) return true
    const known = left.get(plan_id)
    if (known && !layer.lacks(known.need)) told.delete(known.missing) // taken away again it is worth a word
    const found = lackingFor(graph, run, layer)
    if (!found) {
      left.delete(plan_id)
      return false
    }
    const missing = `${found.lacking.what} ${found.lacking.name}`
    if (!told.has(missing)) onError(leftFor(found.lacking, run.id))
    told.add(missing)
    const latest = (endingOf(graph, run) ? undefined : latestEnd(run.data)?.due) ?? Number.POSITIVE_INFINITY
    const { revision } = graph
    left.set(plan_id, { looked: clock.now(), pauseMs: PAUSE_MS, ...known, need: found.need, missing, latest, revision })
    return true
  }

  /** As long as nobody has written to its context, nobody has done there what was lacking, or asked to cancel it. */
  async function staysAway(plan: string, head: () => Promise<number>): Promise<boolean> {
    if (isHopeless(plan)) return true
    const known = left.get(plan)
    if (!known || clock.now() >= known.latest || unlessThrown(() => layer.lacks(known.need)) === undefined) return false
    if (rests(known)) return true
    restsLonger(known)
    return (await head()) === known.revision
  }

  const isHopeless = (plan: string): boolean => {
    const known = hopeless.get(plan)
    return known !== undefined && rests(known)
  }

  const rests = ({ looked, pauseMs }: Resting): boolean => {
    const since = clock.now() - looked
    return since >= 0 && since < pauseMs
  }

  const restsLonger = (resting: Resting): void => {
    resting.looked = clock.now()
    resting.pauseMs = Math.min(2 * resting.pauseMs, LONGEST_PAUSE_MS)
  }

  /** An adapter that cannot say what it lacks is asked again when the step comes, and fails that one alone. */
  const unlessThrown = <T>(ask: () => T): T | undefined => {
    try {
      return ask()
    } catch (error) {
      onError(error)
      return undefined
    }
  }

  return {
    lacks: (action) => unlessThrown(() => layer.lacks(action)),
    gaveUp(plan) {
      const known = hopeless.get(plan)
      if (known) restsLonger(known)
      else hopeless.set(plan, { looked: clock.now(), pauseMs: PAUSE_MS })
    },
    lacking: (graph, run) => lackingFor(graph, run, layer)?.lacking,
    leaves: (graph, run) => isHopeless(run.data.plan_id) || (unlessThrown(() => mustLeave(graph, run)) ?? false),
    staysAway,
    forgetOthers(plans, since) {
      for (const known of [left, hopeless])
        for (const [plan, { looked }] of known) if (!plans.has(plan) && looked < since) known.delete(plan)
    },
  }
}

const leftFor = ({ what, name, step_id }: Lacking, run: string): NotFound =>
  new NotFound(
    what,
    name,
    `run ${run} is left to a process that has it, for step ${step_id}, and so is every other that needs it`,
  )
