import { describe, expect, it } from 'vitest'
import { ledger } from '../../src/ael/ledger.ts'

describe('a budget', () => {
  it('tells of each limit once, when it comes near and when it is crossed', async () => {
    const budget = ledger({ tokens: 100, cost: 10 })
    const told: string[] = []
    for (const [tokens, cost] of [
      [10, 1],
      [75, 1],
      [1, 7],
      [1, 0],
      [50, 0],
      [0, 5],
      [0, 1],
    ] as const) {
      const { state, message = '' } = await budget.settle('any', { tokens, cost })
      told.push(`${state} ${message}`)
    }
    expect(told).toEqual([
      'ok ',
      'warning 85 of 100 tokens are used',
      'warning 9 of 10 cost are used',
      'ok ',
      'exceeded the budget of 100 tokens is used up',
      'exceeded the budget of 10 cost is used up',
      'ok ',
    ])
  })

  it('denies what would exceed it, and gives back what was set apart and not used', async () => {
    const budget = ledger({ actions: 1 })
    const reserved = async (execution_id: string) =>
      (await budget.reserve({ execution_id, action_id: 'any', spend: { actions: 1 } })).state
    expect(await reserved('first')).toBe('warning')
    expect(await reserved('second')).toBe('exceeded')
    budget.release('first')
    expect(await reserved('second')).not.toBe('exceeded')
  })

  it.each([
    ['0.3 by 0.1', 0.3, 0.1, 3],
    ['1 by 0.001', 1, 0.001, 1_000],
    ['0.000021 by 0.000003', 0.000021, 0.000003, 7],
  ])('is used up to the last bit, whatever a computer makes of fractions: %s', async (_, limit, each, times) => {
    const request = (execution_id: string) => ({ execution_id, action_id: 'any', spend: { cost: each } })
    const inTurn = ledger({ cost: limit })
    const atOnce = ledger({ cost: limit })
    for (let i = 0; i < times; i++) {
      expect(inTurn.reserve(request('one')).state).not.toBe('exceeded')
      expect((await inTurn.settle('one', { cost: each })).state).not.toBe('exceeded')
      if (i < 30) expect(atOnce.reserve(request(`${i}`)).state).not.toBe('exceeded')
    }
    expect(inTurn.remaining()).toEqual({ cost: 0 })
    expect(inTurn.spent.cost).toBe(limit)
    expect(inTurn.reserve(request('one more'))).toMatchObject({ message: `the budget of ${limit} cost is used up` })
  })

  it.each([2 / 3, 123_456_789.123_456_79])('of %d lasts for as much', (cost) => {
    const request = { execution_id: 'one', action_id: 'any', spend: { cost } }
    const budget = ledger({ cost })
    expect(budget.reserve(request).state).not.toBe('exceeded')
    expect(budget.remaining()).toEqual({ cost: 0 })
    expect(budget.settle('one', { cost })).toEqual({ state: 'ok' }) // that it is nearly used up was told
  })

  it('says what is left of it where that is not enough', async () => {
    const budget = ledger({ tokens: 100 })
    const denied = async (tokens: number) =>
      (await budget.reserve({ execution_id: 'any', action_id: 'any', spend: { tokens } })).message
    expect(await denied(1_030)).toBe('the budget of 100 tokens has 100 left, and this may take 1030')
    budget.forfeit({ tokens: 100 })
    expect(await denied(1)).toBe('the budget of 100 tokens is used up')
  })

  it('takes what an attempt has used up by now in place of what it had set apart, and says once that it is too much', async () => {
    const budget = ledger({ tokens: 100 })
    const reserved = (execution_id: string, tokens: number) =>
      budget.reserve({ execution_id, action_id: 'any', spend: { tokens } })
    expect(reserved('first', 30).state).toBe('ok')
    expect(reserved('first', 60).state).toBe('ok')
    expect(reserved('second', 50).message).toBe('the budget of 100 tokens has 40 left, and this may take 50')
    const used = { state: 'exceeded', remaining: { tokens: 0 }, message: 'the budget of 100 tokens is used up' }
    expect(reserved('first', 110)).toEqual(used)
    expect(await budget.settle('first', { tokens: 110 })).toEqual({ state: 'ok' }) // it was said above
    expect(budget.spent.tokens).toBe(110)
  })
})
