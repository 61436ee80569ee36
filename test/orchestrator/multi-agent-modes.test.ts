import { describe, expect, it } from 'vitest'
import { broadcast } from '../../src/orchestrator/modes/broadcast.ts'
import type { Board, Mode, NextTurn, Purpose, ReadyStep, Seat, Turn } from '../../src/orchestrator/modes/mode.ts'
import { modes } from '../../src/orchestrator/modes/modes.ts'
import { orchestrated } from '../../src/orchestrator/modes/orchestrated.ts'
import { pair } from '../../src/orchestrator/modes/pair.ts'
import { roundRobin } from '../../src/orchestrator/modes/round-robin.ts'
import { swarm } from '../../src/orchestrator/modes/swarm.ts'
import type { CollabMode } from '../../src/protocol/types.ts'

/** `ann:planner` takes part as ann in the role planner. */
const seat = (text: string): Seat => {
  const [participant_id, role_id] = text.split(':') as [string, string]
  return { participant_id, role_id, names: [role_id, participant_id] }
}
/** `plan:planner` is a step for a planner, `plan` one for anybody. */
const step = (text: string): ReadyStep => {
  const [step_id, role] = text.split(':') as [string, string?]
  return { step_id, ...(role !== undefined && { role }) }
}
/** `ann plan review` was or is ann's turn to review the step plan; work when nothing is said. `ann plan work failed` came to nothing. */
const turnOf = (text: string, turn_number: number): Turn => {
  const [participant_id, step_id, purpose = 'work', end] = text.split(' ') as [string, string, Purpose?, string?]
  return { participant_id, step_id, purpose, turn_number, failed: end === 'failed' }
}
const told = (next: readonly NextTurn[]): string =>
  next
    .map(
      ({ participant_id, step_id, purpose }) =>
        `${participant_id} ${step_id}${purpose === 'work' ? '' : ` ${purpose}`}`,
    )
    .join(', ')

interface Given {
  readonly seats: string
  readonly ended?: string
  readonly open?: string
  readonly ready: string
}
const list = (text = ''): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter(Boolean)
const board = ({ seats, ended, open, ready }: Given): Board => {
  const all = list(seats).map(seat)
  return {
    seats: all,
    coordinator: all[0]!,
    ended: list(ended).map(turnOf),
    open: list(open).map(turnOf),
    ready: list(ready).map(step),
  }
}
const table = (mode: Mode, rows: readonly (readonly [why: string, given: Given, next: string])[]) =>
  it.each(rows)('%s', (_, given, next) => {
    const before = JSON.stringify(given)
    expect(told(mode(board(given)))).toBe(next)
    expect(JSON.stringify(given)).toBe(before)
  })

describe('round_robin', () => {
  const seats = 'ann:planner, bob:reviewer, cy:planner'
  table(roundRobin, [
    ['begins with the first', { seats, ready: 'x' }, 'ann x'],
    ['goes on with the next', { seats, ended: 'ann x', ready: 'y, z' }, 'bob y'],
    ['begins again after the last', { seats, ended: 'ann x, bob y, cy z', ready: 'q' }, 'ann q'],
    ['waits while somebody has a turn', { seats, open: 'ann x', ready: 'y' }, ''],
    ['gives nobody a turn when nothing is ready', { seats, ended: 'ann x', ready: '' }, ''],
    ['passes over whose role does not fit', { seats, ended: 'ann x', ready: 'y:planner' }, 'cy y'],
    [
      'lets the holder do what it may, not what is first',
      { seats, ended: 'ann x', ready: 'y:planner, z:reviewer' },
      'bob z',
    ],
    ['comes back to the same one when only that one may', { seats, ended: 'bob x', ready: 'y:reviewer' }, 'bob y'],
    ['gives out one at a time, however much is ready', { seats, ready: 'x, y, z' }, 'ann x'],
  ])
})

describe('orchestrated', () => {
  const seats = 'lead:lead, ann:coder, bob:coder'
  table(orchestrated, [
    ['lets the coordinator speak before a worker', { seats, ready: 'x:coder' }, 'lead x brief'],
    ['then the worker works', { seats, ended: 'lead x brief', ready: 'x:coder' }, 'ann x'],
    ['then the coordinator reviews', { seats, ended: 'lead x brief, ann x', ready: '' }, 'lead x review'],
    ['then comes the next step', { seats, ended: 'lead x brief, ann x, lead x review', ready: 'y' }, 'lead y brief'],
    [
      'with the worker whose turn is longest ago',
      { seats, ended: 'lead x brief, ann x, lead x review, lead y brief', ready: 'y' },
      'bob y',
    ],
    [
      'works on what was briefed, though another step is first',
      { seats, ended: 'lead y brief', ready: 'x, y' },
      'ann y',
    ],
    ['lets the coordinator do what only it may', { seats, ready: 'x:lead' }, 'lead x'],
    ['and says nothing about its own work', { seats, ended: 'lead x', ready: 'y:coder' }, 'lead y brief'],
    ['waits while somebody has a turn', { seats, open: 'lead x brief', ready: 'x' }, ''],
    ['ends after the last review', { seats, ended: 'ann x, lead x review', ready: '' }, ''],
    ['reviews nothing that failed', { seats, ended: 'lead x brief, ann x work failed', ready: 'y' }, 'lead y brief'],
    ['ends after the last that failed', { seats, ended: 'lead x brief, ann x work failed', ready: '' }, ''],
    ['has a coordinator alone do everything', { seats: 'lead:lead', ready: 'x' }, 'lead x'],
  ])
})

describe('broadcast', () => {
  const seats = 'lead:lead, ann:searcher, bob:searcher, cy:searcher'
  table(broadcast, [
    ['sends a step to the only one whose role fits', { seats, ready: 'x:lead' }, 'lead x'],
    [
      'sends a level out at once, one each',
      { seats, ready: 'x:searcher, y:searcher, z:searcher' },
      'ann x, bob y, cy z',
    ],
    ['sends one step to everybody who may answer', { seats, ready: 'x:searcher' }, 'ann x, bob x, cy x'],
    [
      'gives each several when there are more steps',
      { seats: 'ann:a, bob:a', ready: 'x, y, z' },
      'ann x, bob y, ann z',
    ],
    [
      'has everybody answer where there are fewer steps',
      { seats, ready: 'x:searcher, y:searcher' },
      'ann x, bob y, cy x',
    ],
    ['sends steps of several roles together', { seats, ready: 'x:lead, y:searcher' }, 'lead x, ann y, bob y, cy y'],
    ['waits until all have answered', { seats, ended: 'ann x', open: 'bob y', ready: 'z:lead' }, ''],
    ['goes on when all have answered', { seats, ended: 'ann x, bob y, cy z', ready: 'q:lead' }, 'lead q'],
    ['has nothing to send when nothing is ready', { seats, ready: '' }, ''],
  ])
})

describe('swarm', () => {
  const seats = 'ann:coder, bob:coder, cy:tester'
  table(swarm, [
    ['lets everybody claim who is idle', { seats, ready: 'x, y, z, q' }, 'ann x, bob y, cy z'],
    ['lets them claim what they may', { seats, ready: 'x:tester, y:coder' }, 'ann y, cy x'],
    ['does not wait for others', { seats, open: 'bob x', ended: 'ann y', ready: 'z' }, 'cy z'],
    ['gives nothing to the busy', { seats, open: 'ann x, bob y', ready: 'z:coder' }, ''],
    ['lets those choose first who have been idle longest', { seats, ended: 'bob x, cy y, ann z', ready: 'q' }, 'bob q'],
    ['leaves unclaimed what nobody idle may do', { seats, open: 'cy x', ready: 'y:tester, z' }, 'ann z'],
    ['claims nothing when nothing is ready', { seats, ready: '' }, ''],
  ])
})

describe('pair', () => {
  const seats = 'ann:dev, bob:dev'
  table(pair, [
    ['lets the first drive', { seats, ready: 'x, y' }, 'ann x'],
    ['then the other reviews', { seats, ended: 'ann x', ready: 'y' }, 'bob x review'],
    ['then they swap', { seats, ended: 'ann x, bob x review', ready: 'y' }, 'bob y'],
    ['and the first reviews', { seats, ended: 'ann x, bob x review, bob y', ready: '' }, 'ann y review'],
    ['and they swap again', { seats, ended: 'ann x, bob x review, bob y, ann y review', ready: 'z' }, 'ann z'],
    ['waits while one has a turn', { seats, open: 'ann x', ready: 'y' }, ''],
    ['has that one drive who alone may', { seats: 'ann:dev, bob:qa', ready: 'x:qa' }, 'bob x'],
    ['ends after the last review', { seats, ended: 'ann x, bob x review', ready: '' }, ''],
    ['reviews nothing that failed, and they swap', { seats, ended: 'ann x work failed', ready: 'y' }, 'bob y'],
  ])
})

describe('the five modes', () => {
  /** Everybody who has begun ends at once: the turns of one round stand side by side. */
  function schedule(mode: CollabMode, seats: string, plan: { readonly [step: string]: readonly string[] }): string[] {
    const rounds: string[] = []
    const [done, begun] = [new Set<string>(), new Set<string>()]
    const ended: Turn[] = []
    for (;;) {
      const ready = Object.keys(plan).filter(
        (name) => !begun.has(name) && plan[name]!.every((before) => done.has(before)),
      )
      const next = modes[mode]({ ...board({ seats, ready: ready.join(',') }), ended })
      if (next.length === 0) return rounds
      rounds.push(told(next))
      for (const one of next) {
        ended.push({ ...one, turn_number: ended.length + 1 })
        if (one.purpose === 'work') begun.add(one.step_id)
      }
      for (const one of next) if (one.purpose === 'work') done.add(one.step_id)
    }
  }
  const diamond = { a: [], b: ['a'], c: ['a'], d: ['b', 'c'] }
  const names = Object.keys(modes) as CollabMode[]

  it('give five different schedules on the same example', () => {
    const schedules = names.map((mode) => schedule(mode, 'ann:dev, bob:dev', diamond).join(' | '))
    expect(new Set(schedules).size).toBe(5)
    expect(Object.fromEntries(names.map((mode, i) => [mode, schedules[i]]))).toEqual({
      broadcast: 'ann a, bob a | ann b, bob c | ann d, bob d',
      round_robin: 'ann a | bob b | ann c | bob d',
      orchestrated:
        'ann a brief | bob a | ann a review | ann b brief | bob b | ann b review | ann c brief | bob c | ann c review | ann d brief | bob d | ann d review',
      swarm: 'ann a | bob b, ann c | bob d',
      pair: 'ann a | bob a review | bob b | ann b review | ann c | bob c review | bob d | ann d review',
    })
  })

  it.each(names)('%s comes to an end on every plan, each step done, nothing before what it waits for', (mode) => {
    for (const plan of [
      diamond,
      { a: [] },
      { a: [], b: ['a'], c: ['b'] },
      { a: [], b: [], c: [], d: [], e: ['a', 'd'] },
    ]) {
      const rounds = schedule(mode, 'ann:dev, bob:dev', plan)
      const order = rounds
        .flatMap((round) => round.split(', '))
        .filter((one) => one.split(' ').length === 2)
        .map((one) => one.split(' ')[1]!)
      expect(new Set(order)).toEqual(new Set(Object.keys(plan)))
      for (const [name, before] of Object.entries(plan) as [string, string[]][])
        for (const earlier of before) expect(order.lastIndexOf(earlier)).toBeLessThan(order.indexOf(name))
    }
  })
})
