import { figure, median, type Table } from './report.ts'

/** What was measured in some rounds: wall time, and CPU time of this process, which a busy machine disturbs less. */
export interface Rounds {
  readonly wall: number[]
  readonly cpu: number[]
}

export const noRounds = (): Rounds => ({ wall: [], cpu: [] })

/** Adds a round, in units of the work: milliseconds for the whole of it, or for each of `per` pieces. */
export async function timed(rounds: Rounds, work: () => unknown, per = 1): Promise<void> {
  const [since, used] = [performance.now(), process.cpuUsage()]
  await work()
  const { user, system } = process.cpuUsage(used)
  rounds.wall.push((performance.now() - since) / per)
  rounds.cpu.push((user + system) / 1000 / per)
}

interface Goal {
  readonly unit: string
  readonly most?: number
  readonly least?: number
}

/** A row of a table: the median of the rounds beside the goal, in the goal's unit. `of` makes it from milliseconds. */
export function beside(
  goal: Goal,
  { wall, cpu }: Rounds,
  of: (ms: number) => number = (ms) => ms,
): Table['rows'][string] {
  return { ...judged(goal, of(median(wall))), 'by CPU time': figure(of(median(cpu))) }
}

/** The same for something that is no time. */
export function judged({ unit, most, least }: Goal, value: number): Table['rows'][string] {
  const isMet = (most === undefined || value <= most) && (least === undefined || value >= least)
  const wanted = most === undefined ? (least === undefined ? '' : `at least ${figure(least)}`) : `under ${figure(most)}`
  return { median: figure(value), unit, goal: wanted, met: wanted === '' ? '' : isMet ? 'yes' : 'NO' }
}
