import { expect, it } from 'vitest'
import { newAction } from '../../src/ael/action.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { finalFailure, passingFailure } from '../../src/ael/failure.ts'
import { type Handoff, handoffAdapter } from '../../src/ael/handoff.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import { type AdapterRig, adapterContract } from '../contracts/adapter-contract.ts'

adapterContract('handoff', async (): Promise<AdapterRig> => {
  const secret = 'handoff-secret-5150'
  const taken: Handoff[] = []
  const waiting = new Set<string>()
  let begin: () => void
  const began = new Promise<void>((resolve) => {
    begin = resolve
  })
  const adapter = handoffAdapter({
    knows: (role) => role !== 'stranger',
    async hand(handoff, { signal }) {
      taken.push(handoff)
      const { to_role } = handoff
      if (to_role === 'busy') throw passingFailure('busy')
      if (to_role === 'gone') throw finalFailure('gone')
      if (to_role === 'talker') return 'x'.repeat(2_000)
      if (to_role === 'traitor') throw finalFailure(`he said ${secret}`)
      if (to_role !== 'sleeper') return { accepted: true }
      waiting.add(to_role)
      begin()
      return new Promise((_, reject) =>
        signal.addEventListener('abort', () => {
          waiting.delete(to_role)
          reject(signal.reason)
        }),
      )
    },
  })
  const to = (to_role: string) => ({ from_role: 'planner', to_role, handoff_data: { instructions: 'go on' } })
  return {
    adapter: { ...adapter, secrets: () => [secret] },
    works: { params: to('coder'), output: { from_role: 'planner', to_role: 'coder', answer: { accepted: true } } },
    refused: [
      { params: { from_role: 'planner' }, path: 'to_role' },
      { params: { to_role: 'coder' }, path: 'from_role' },
      { params: { ...to('coder'), handoff_data: 'text' }, path: 'handoff_data' },
      { params: to('planner'), path: 'to_role' },
      { params: to('stranger'), path: 'to_role' },
    ],
    hangs: to('sleeper'),
    underWay: () => began,
    remains: () => [...waiting],
    failsForNow: to('busy'),
    failsForGood: to('gone'),
    large: to('talker'),
    leaks: { params: to('traitor'), secret },
    changes: to('coder'),
    keys: () => taken.map(({ idempotency_key }) => idempotency_key),
    never: { misshapen: 'what a role answers is its own affair' },
  }
})

it('speaks for the role that asks, and for no other', async () => {
  const taken: Handoff[] = []
  const hand = async (handoff: Handoff) => void taken.push(handoff) as never
  const layer = actionLayer({ adapters: [handoffAdapter({ hand })] })
  const action = (params: object) =>
    newAction({ action_type: 'agent_handoff', params: { to_role: 'coder', ...params } })
  await layer.execute(action({}), { role: 'planner' })
  expect(taken[0]).toMatchObject({ from_role: 'planner', to_role: 'coder', handoff_data: {} })
  await expect(layer.execute(action({ from_role: 'lead' }), { role: 'planner' })).rejects.toThrow(
    /from_role must be planner/,
  )
})

it('refuses to be made without a hand', () => {
  expect(() => handoffAdapter({ hand: 'by post' as never })).toThrow(InvalidInput)
  expect(() => handoffAdapter(undefined as never)).toThrow(InvalidInput)
})
