import { describe, expect, it } from 'vitest'
import type { Adapter, Outcome } from '../../src/ael/adapter.ts'
import { passingFailure } from '../../src/ael/failure.ts'
import type { Budget, BudgetState, EventDraft } from '../../src/ael/layer.ts'
import { memoryBudget } from '../../src/ael/memory-budget.ts'
import { withObserve } from '../../src/ael/with-observe.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { ActionError, InvalidInput } from '../../src/protocol/errors.ts'
import { costBudgetEvent } from '../../src/protocol/events.ts'
import { adapterOf, callOf, work } from './calls.ts'

const usage = (total: number) => ({ prompt: total, completion: 0, total })
const charged = (outcome: () => Outcome, budget: Budget, more: Partial<Adapter> = {}) => {
  const events: EventDraft[] = []
  const emit = (event: EventDraft) => void events.push(event)
  const adapter = withObserve(
    adapterOf(async () => outcome(), more),
    { budget, emit },
  )
  let id = 0
  const execute = () => adapter.execute(work(), callOf({ execution_id: `e-${++id}` }))
  return { execute, events }
}

describe('withObserve and a budget', () => {
  it('reserves before, settles after, and releases when nothing was spent', async () => {
    const told: unknown[] = []
    const budget: Budget = {
      reserve: ({ execution_id, spend }) => {
        told.push(['reserve', execution_id, spend])
        return { state: 'ok' }
      },
      settle: (id, spent) => {
        told.push(['settle', id, spent])
        return { state: 'ok' }
      },
      release: (id) => void told.push(['release', id]),
    }
    let fail = false
    const { execute } = charged(
      () => {
        if (fail) throw passingFailure('no')
        return { token_usage: usage(30), cost: 2 }
      },
      budget,
      { estimate: () => ({ tokens: 100, cost: 9 }) },
    )
    await execute()
    fail = true
    await expect(execute()).rejects.toThrow('no')
    expect(told).toEqual([
      ['reserve', 'e-1', { actions: 1, tokens: 100, cost: 9 }],
      ['settle', 'e-1', { actions: 1, tokens: 30, cost: 2 }],
      ['reserve', 'e-2', { actions: 1, tokens: 100, cost: 9 }],
      ['release', 'e-2'],
    ])
  })

  it('attempts nothing whose price is no amount: in a sum it would let every limit go', async () => {
    const budget = memoryBudget({ cost: 1 })
    let made = 0
    const { execute } = charged(() => ({ output: ++made }), budget, { estimate: () => ({ cost: Number.NaN }) })
    await expect(execute()).rejects.toThrow('the cost of work must be a number of at least 0, not NaN')
    expect([made, budget.remaining()]).toEqual([0, { cost: 1 }])
  })

  it('charges a failure for what it had spent', async () => {
    const budget = memoryBudget({ tokens: 100 })
    const { execute } = charged(() => {
      throw passingFailure('cut off', { spent: { tokens: 40 } })
    }, budget)
    await expect(execute()).rejects.toThrow('cut off')
    expect(budget.remaining()).toEqual({ tokens: 60 })
  })

  it('fails with what was wrong when what a failure had spent is no amount', async () => {
    const budget = memoryBudget({ tokens: 100 })
    const { execute } = charged(() => {
      throw passingFailure('cut off', { spent: { tokens: Number.NaN } })
    }, budget)
    await expect(execute()).rejects.toMatchObject({
      message: 'cut off; the tokens of work must be a number of at least 0, not NaN',
      retryable: false,
      spent: undefined,
    })
    expect(budget.remaining()).toEqual({ tokens: 100 })
  })

  it('keeps no more of a message than a journal can, and all else of the failure', async () => {
    const budget = memoryBudget({ tokens: 100 })
    const { execute } = charged(() => {
      throw passingFailure('x'.repeat(1_000_000), { spent: { tokens: 40 }, retryAfterMs: 7 })
    }, budget)
    const error = await execute().catch((caught) => caught)
    expect(error).toMatchObject({ code: 'action_failed', retryable: true, retryAfterMs: 7, spent: { tokens: 40 } })
    expect(error.message).toMatch(/^x{65536}… \(1000000 characters\)$/)
    expect(budget.remaining()).toEqual({ tokens: 60 })
  })

  it('denies an attempt for which nothing is left, and tells of it', async () => {
    const { execute, events } = charged(() => ({ token_usage: usage(60) }), memoryBudget({ tokens: 100 }), {
      estimate: () => ({ tokens: 60 }),
    })
    await execute()
    const error = await execute().catch((caught) => caught)
    expect(error).toBeInstanceOf(ActionError)
    expect(error).toMatchObject({ code: 'budget_exceeded', retryable: false })
    expect(events.map((event) => event.event_type)).toEqual(['budget_exceeded'])
    const { event_family, ...fields } = events[0] as EventDraft
    expect(costBudgetEvent(fields, manualClock())).toMatchObject({
      event_family,
      payload: { budget_remaining: { tokens: 40 } },
    })
  })

  it('ends at its checkpoint an attempt that has used up the budget, and charges what it had spent', async () => {
    const budget = memoryBudget({ tokens: 100 })
    const told: number[] = []
    const adapter = withObserve(
      adapterOf(
        async (_, { checkpoint }) => {
          for (const tokens of [10, 60, 110, 160]) {
            told.push(tokens)
            await checkpoint({}, { tokens })
          }
          return {}
        },
        { estimate: () => ({ tokens: 50 }) },
      ),
      { budget },
    )
    const spent = { tokens: 110 }
    await expect(adapter.execute(work(), callOf())).rejects.toMatchObject({ code: 'budget_exceeded', spent })
    expect(told).toEqual([10, 60, 110])
    expect(budget.remaining()).toEqual({ tokens: 0 })
  })

  it('warns once when the line is crossed', async () => {
    const { execute, events } = charged(() => ({ token_usage: usage(30) }), memoryBudget({ tokens: 100, warnAt: 0.5 }))
    for (let i = 0; i < 3; i++) await execute()
    expect(events.map((event) => event.event_type)).toEqual(['budget_warning'])
  })

  it('releases what it had reserved when the attempt may not begin', async () => {
    const budget = memoryBudget({ actions: 1 })
    const adapter = withObserve(
      adapterOf(() => expect.unreachable()),
      {
        budget,
        observer: { started: () => Promise.reject(new Error('no journal')), ended: () => undefined },
      },
    )
    await expect(adapter.execute(work(), callOf())).rejects.toThrow('no journal')
    expect(budget.remaining()).toEqual({ actions: 1 })
  })
})

describe('memoryBudget', () => {
  const reserve = (budget: Budget, execution_id: string, tokens: number) =>
    budget.reserve({ action_id: 'a', execution_id, spend: { actions: 1, tokens } })

  it('lets nobody spend what another has reserved', () => {
    const budget = memoryBudget({ tokens: 100 })
    expect(reserve(budget, 'a', 70)).toMatchObject({ state: 'ok' })
    expect(reserve(budget, 'b', 40)).toMatchObject({ state: 'exceeded' })
    budget.release('a')
    expect(reserve(budget, 'b', 40)).toMatchObject({ state: 'ok' })
  })

  it('says exceeded when more was spent than there was', () => {
    const budget = memoryBudget({ tokens: 100 })
    reserve(budget, 'a', 10)
    expect(budget.settle('a', { tokens: 120 })).toMatchObject({ state: 'exceeded', remaining: { tokens: 0 } })
    expect(reserve(budget, 'b', 0)).toMatchObject({ state: 'exceeded' })
  })

  it('says once that a line is crossed, however many were under way', () => {
    const budget = memoryBudget({ tokens: 100 })
    for (const id of ['a', 'b', 'c']) reserve(budget, id, 0)
    const said = ['a', 'b', 'c'].map((id) => (budget.settle(id, { tokens: 60 }) as BudgetState).state)
    expect(said).toEqual(['ok', 'exceeded', 'ok'])
  })

  it('does not limit what it was given no limit for', () => {
    const budget = memoryBudget({ tokens: 100, actions: undefined as never })
    expect(reserve(budget, 'a', 1)).toMatchObject({ state: 'ok' })
    expect(budget.remaining()).toEqual({ tokens: 99 })
  })

  it('refuses limits that are none', () => {
    expect(() => memoryBudget({})).toThrow(InvalidInput)
    expect(() => memoryBudget({ tokens: -1 })).toThrow(InvalidInput)
    expect(() => memoryBudget({ tokens: 1, warnAt: 2 })).toThrow(
      expect.objectContaining({ problems: [expect.objectContaining({ path: 'warnAt' })] }),
    )
  })
})
