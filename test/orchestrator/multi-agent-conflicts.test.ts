import { describe, expect, it } from 'vitest'
import { type ConflictRules, type Contender, contend, settle } from '../../src/orchestrator/conflict.ts'

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
    ['by hierarchy: equal ranks decide nothing', 'bob=1 cy=2', { strategies: ['hierarchy'], ranks }, undefined],
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
