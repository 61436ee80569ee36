import { describe, expect, it } from 'vitest'
import { type ConflictRules, type Contender, contend, settle } from '../../src/orchestrator/conflict.ts'
import { liveSession, seatOf } from '../../src/orchestrator/session.ts'

/** `ann=1`: ann's result is 1; in the order in which they ended. */
const contenders = (text: string): Contender[] =>
  text.split(' ').map((part) => {
    const [name, output] = part.split('=') as [string, string]
    return {
      action_id: name,
      step_id: 's',
      participant_id: name,
      role_id: `role-${name}`,
      names: [name, `role-${name}`],
      result: { output },
    }
  })

describe('a conflict', () => {
  it('is there only when results differ', () => {
    expect(contend(contenders('ann=1 bob=1'))).toBe(false)
    expect(contend(contenders('ann=1 bob=2'))).toBe(true)
    expect(contend([])).toBe(false)
  })

  const ranks = { ann: 1, 'role-bob': 5, cy: 5 }
  it.each<[string, string, ConflictRules, string | undefined]>([
    ['by hierarchy: the higher rank wins', 'ann=1 bob=2', { strategies: ['hierarchy'], ranks }, 'bob by hierarchy'],
    [
      'by hierarchy: who has no rank is below all',
      'dan=1 ann=2',
      { strategies: ['hierarchy'], ranks },
      'ann by hierarchy',
    ],
    [
      'by hierarchy: whatever somebody without a rank is called',
      'constructor=1 ann=2',
      { strategies: ['hierarchy'], ranks },
      'ann by hierarchy',
    ],
    ['by hierarchy: equal ranks decide nothing', 'bob=1 cy=2', { strategies: ['hierarchy'], ranks }, undefined],
    [
      'by hierarchy: equal ranks that agree decide, told by the first',
      'ann=1 bob=2 cy=2',
      { strategies: ['hierarchy'], ranks },
      'bob by hierarchy',
    ],
    ['by hierarchy: without ranks nothing is decided', 'bob=1 cy=2', { strategies: ['hierarchy'] }, undefined],
    [
      'by voting: what most agree on wins, told by its first',
      'ann=1 bob=2 cy=2',
      { strategies: ['voting'] },
      'bob by voting',
    ],
    ['by voting: a tie decides nothing', 'ann=1 bob=2', { strategies: ['voting'] }, undefined],
    ['by timestamp: the last write wins', 'ann=1 bob=2 cy=3', { strategies: ['timestamp'] }, 'cy by timestamp'],
    ['by escalation: a person must say', 'ann=1 bob=2', { strategies: ['escalation', 'timestamp'] }, undefined],
    ['by the first that decides', 'bob=1 cy=2 dan=2', { strategies: ['hierarchy', 'voting'], ranks }, 'cy by voting'],
    ['as usual: hierarchy, then voting, then a person', 'ann=1 bob=2', {}, undefined],
    ['never by time unless told so', 'ann=1 bob=2 cy=3', {}, undefined],
  ])('is settled %s', (_, given, rules, winner) => {
    const settled = settle(contenders(given), rules)
    expect(settled && `${settled.winner.participant_id} by ${settled.strategy}`).toBe(winner)
  })
})

describe('a session that was left behind', () => {
  it('has for what was written the last of several answers that agreed, and none to a step that failed', () => {
    const statuses: { readonly [step: string]: string } = {
      agreed: 'completed',
      given_up: 'failed',
      open: 'in_progress',
    }
    const answer = (step_id: string, participant_id: string, at: number) => ({
      data: {
        ...{ action_id: `${step_id}-${participant_id}`, step_id, status: 'completed', output: 'same', ended: [{ at }] },
        turn: { turn_number: at, participant_id, role_id: 'dev', purpose: 'work' },
      },
    })
    const graph = {
      get: (_: string, id: string) => ({ data: { status: statuses[id] } }),
      state: { nodesOf: () => [] },
    }
    const seats = ['ann', 'bob'].map((participant_id) => ({ participant_id, role_id: 'dev', names: [] }))
    const conflicts = { writes: { agreed: ['readme'], given_up: ['readme'], open: ['readme'] } }
    const actions = [answer('agreed', 'bob', 2), answer('agreed', 'ann', 1), answer('given_up', 'ann', 3)]
    const { writers, answers } = liveSession(
      graph as never,
      'plan',
      { seats, conflicts } as never,
      [...actions, answer('open', 'ann', 4)] as never,
    )
    expect(writers.get('readme')?.map(({ action_id }) => action_id)).toEqual(['agreed-bob'])
    expect([...answers.keys()]).toEqual(['open'])
  })
})

describe('a session of very many', () => {
  it('finds each of them without looking at the others', () => {
    let looks = 0
    const seats = Array.from({ length: 1_000 }, (_, i) => ({
      get participant_id() {
        looks++
        return `p${i}`
      },
    }))
    const graph = { state: { nodesOf: () => [] } }
    const session = liveSession(graph as never, 'plan', { seats } as never, [])
    const found = seats.map((_, i) => seatOf(session, `p${i}`))
    expect(looks).toBe(seats.length)
    expect(found).toEqual(seats)
  })
})
