import { goOn, settle } from '../port.ts'
import { leftBehind } from './left-behind.ts'
import { begin, fate, type Life } from './life.ts'
import { ask } from './wishes.ts'
import { type Tampering, type World, worldOf } from './world.ts'

export interface SimulatedTwo {
  /** What is wrong; empty when everything held. */
  readonly faults: readonly string[]
  /** What was wished for and what befell the two processes, in order. */
  readonly trace: readonly string[]
  readonly rounds: number
}

/** Longer than it takes any of these worlds: a run that is not over by then hangs. */
const MOST_ROUNDS = 10_000
/** Time passes now and then though somebody could go on: then answers are late. */
const PUNCTUAL = 0.97
const LONGEST_LEAP_MS = 500

/**
 * Runs two flows of one context on two runtimes that share a store and a clock. The seed chooses whose call goes on, what people wish for and of whom,
 * and when a process is killed, frozen, or closed and started again. Says what did not hold at the end.
 */
export async function simulateTwo(seed: number, tampering: Tampering = {}): Promise<SimulatedTwo> {
  const world = worldOf(seed, tampering)
  const { luck, faults, trace } = world
  let lives: readonly Life[] = [begin(world, 'left'), begin(world, 'right')]
  while (!isOver(world)) {
    if (++world.round > MOST_ROUNDS) {
      faults.push('a run neither ended nor said what it waits for')
      break
    }
    lives = lives.map((life) => fate(world, life))
    await ask(world, lives, lives[luck.random() < 0.5 ? 0 : 1]!)
    await step(world, lives)
  }
  for (const { port } of lives) port.die()
  return { faults: [...new Set([...faults, ...(await leftBehind(world))])], trace, rounds: world.round }
}

const isOver = ({ witness, flows }: World): boolean =>
  witness.hasEnded(flows.main.plan.plan_id) && witness.hasEnded(flows.beside.plan.plan_id)

/** Lets one waiting call go on, or time pass. */
async function step({ clock, luck }: World, lives: readonly Life[]): Promise<void> {
  await settle()
  const ports = lives.map(({ port }) => port)
  if (luck.random() >= PUNCTUAL || !goOn(ports, luck.random)) {
    const wake = clock.nextWake ?? clock.now() + LONGEST_LEAP_MS
    await clock.advance(Math.min(LONGEST_LEAP_MS, Math.max(1, wake - clock.now())))
  }
  await settle()
}
