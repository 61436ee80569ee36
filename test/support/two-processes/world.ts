import { type ManualClock, manualClock } from '../../../src/protocol/clock.ts'
import type { Backend } from '../../../src/vsl/backend.ts'
import { memoryBackend } from '../../../src/vsl/memory.ts'
import { type Flows, flowsOf } from './flows.ts'
import type { Life } from './life.ts'
import { type Temper, temperOf, type Wish } from './temper.ts'
import { type Witness, witness } from './witness.ts'

/** What two processes share, and what is known of them from outside. */
export interface World {
  readonly clock: ManualClock
  /** Chooses what happens; ids come from the clock. */
  readonly luck: ManualClock
  readonly store: Backend
  readonly switched: ReadonlySet<string> | undefined
  /** Functions that one of the two does not have. */
  readonly lacks: readonly string[]
  readonly witness: Witness<Life>
  readonly flows: Flows
  readonly temper: Temper
  readonly context: string
  /** The plan that wishes are about. */
  readonly plan: string
  /** Everything that was wished for, also by those who died over it. */
  readonly wished: Set<Wish>
  /** The journal's revision when somebody was told that a cancel is stored. */
  cancelHeard: number | undefined
  round: number
  /** How often the flaky step has failed. */
  flakes: number
  /** Nobody is killed, frozen or closed any more, and wished is only what a run needs to end. */
  isCalm(): boolean
  readonly faults: string[]
  readonly trace: string[]
}

/** Something broken, to prove that it is noticed. */
export interface Tampering {
  readonly store?: (store: Backend) => Backend
  /** Rules and events of the runtimes to switch over. */
  readonly switched?: ReadonlySet<string>
  /** All that is wished for, so that it comes to what is broken sooner. */
  readonly wishes?: readonly Wish[]
  /** Functions that one of the two does not have; it submits nothing. */
  readonly lacks?: readonly string[]
}

export function worldOf(
  seed: number,
  { store: tampered = (store) => store, switched, wishes, lacks = [] }: Tampering,
): World {
  const clock = manualClock({ seed })
  const luck = manualClock({ seed: seed + 7_919 })
  const flows = flowsOf(clock, luck)
  const temper = temperOf(luck.random, wishes)
  const { context_id: context, plan_id: plan } = flows.main.plan
  const faults: string[] = []
  const world: World = {
    clock,
    luck,
    store: tampered(memoryBackend({ clock })),
    switched,
    lacks,
    witness: witness(context, faults),
    flows,
    temper,
    context,
    plan,
    wished: new Set(),
    cancelHeard: undefined,
    round: 0,
    flakes: 0,
    isCalm: () => world.round > temper.calmFrom,
    faults,
    trace: [],
  }
  return world
}

export function note({ clock, trace, round }: World, { name }: Life, what: string): void {
  trace.push(`${round}. ${new Date(clock.now()).toISOString().slice(14, 23)} ${name} ${what}`)
}
