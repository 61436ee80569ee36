import { describe, expect, it } from 'vitest'
import type { Adapter, ApprovalPolicy } from '../../src/ael/adapter.ts'
import type { AdmitRequest, GateRequest, Hands } from '../../src/ael/layer.ts'
import { approvalDigest, withAdmission } from '../../src/ael/with-admission.ts'
import { ApprovalNeeded } from '../../src/protocol/errors.ts'
import { adapterOf, callOf, turn, work } from './calls.ts'

const run = { context_id: 'c', plan_id: 'p', step_id: 's', trace_id: 't' }

const admitting = (hands: Pick<Hands, 'admit' | 'gate'>, more: Partial<Adapter> = {}) => {
  let done = 0
  const adapter = withAdmission(
    adapterOf(async () => ({ output: ++done }), more),
    hands,
  )
  return { adapter, done: () => done }
}
const policyOf = (policy: ApprovalPolicy) => ({
  approval: () => ({ policy, tool: 'a.tool', arguments: { a: 1 }, description: 'sure?' }),
})

describe('withAdmission', () => {
  it('asks whether this asker may do this', async () => {
    const asked: AdmitRequest[] = []
    const admit = (request: AdmitRequest) => {
      asked.push(request)
      return request.role === 'guest'
        ? { allowed: false as const, reason: 'guests may not' }
        : { allowed: true as const }
    }
    const { adapter, done } = admitting({ admit }, { label: () => 'digging', readOnly: () => true })
    const action = work()
    await adapter.execute(action, callOf({ role: 'owner', run }))
    expect(asked[0]).toEqual({ action, tool: 'digging', read_only: true, role: 'owner', run })
    const refused = adapter.execute(action, callOf({ role: 'guest' }))
    await expect(refused).rejects.toMatchObject({
      code: 'action_denied',
      retryable: false,
      message: 'digging is denied: guests may not',
    })
    expect(done()).toBe(1)
  })

  it.each([
    ['always_allow', undefined, 'done'],
    ['always_allow', 'ask', 'asked'],
    ['always_allow', 'blocked', 'denied'],
    ['ask', undefined, 'asked'],
    ['ask', 'always_allow', 'asked'],
    ['blocked', 'always_allow', 'denied'],
  ] as const)('of %s and %s takes the stricter', async (own, given, end) => {
    const admit = () => ({ allowed: true as const, ...(given && { policy: given }) })
    const { adapter } = admitting({ admit }, policyOf(own))
    const outcome = await adapter.execute(work(), callOf()).then(
      () => 'done',
      (error) => (error instanceof ApprovalNeeded ? 'asked' : error.code === 'action_denied' ? 'denied' : error),
    )
    expect(outcome).toBe(end)
  })

  it.each<[unknown, RegExp]>([
    [undefined, /the admission of work.*must be an object/],
    [false, /the admission of work.*must be an object/],
    [{}, /allowed is missing/],
    [{ allowed: 'no' }, /allowed must be/],
    [{ allowed: true, policy: 'asks' }, /policy must be one of/],
  ])('does nothing where whoever admits it says %j', async (said, message) => {
    const { adapter, done } = admitting({ admit: () => said as never })
    await expect(adapter.execute(work(), callOf())).rejects.toMatchObject({
      code: 'action_failed',
      retryable: false,
      message: expect.stringMatching(message),
    })
    expect(done()).toBe(0)
  })

  it('asks about an action that has no tool by its label and parameters', async () => {
    const asked: GateRequest[] = []
    const admit = () => ({ allowed: true as const, policy: 'ask' as const })
    const gate = (request: GateRequest) => {
      asked.push(request)
      return { verdict: 'approved' as const }
    }
    const { adapter } = admitting({ admit, gate })
    await adapter.execute(work({ params: { p: 1 } }), callOf({ role: 'r', run }))
    expect(asked[0]).toMatchObject({ tool: 'work', arguments: { p: 1 }, description: 'Run work?', role: 'r', run })
    expect(asked[0]?.digest).toBe(approvalDigest('work', { p: 1 }, run))
  })

  it.each([[{ verdict: 'maybe' }], [{}], [true]])('does nothing on an answer like %j', async (answer) => {
    const { adapter, done } = admitting({ gate: () => answer as never }, policyOf('ask'))
    await expect(adapter.execute(work(), callOf())).rejects.toBeInstanceOf(ApprovalNeeded)
    expect(done()).toBe(0)
  })

  it('does nothing when nobody can be asked, or asking fails', async () => {
    const alone = admitting({}, policyOf('ask'))
    await expect(alone.adapter.execute(work(), callOf())).rejects.toBeInstanceOf(ApprovalNeeded)
    const broken = admitting({ gate: () => Promise.reject(new Error('no line')) }, policyOf('ask'))
    await expect(broken.adapter.execute(work(), callOf())).rejects.toThrow('no line')
    expect([alone.done(), broken.done()]).toEqual([0, 0])
  })

  it('waits for the answer untimed, and no longer than its caller', async () => {
    const controller = new AbortController()
    let untimed = 0
    const { adapter, done } = admitting({ gate: () => new Promise(() => undefined) }, policyOf('ask'))
    const call = callOf({
      signal: controller.signal,
      untimed: (wait) => {
        untimed++
        return wait
      },
    })
    const ended = adapter.execute(work(), call).catch((error) => error)
    await turn()
    controller.abort()
    expect(await ended).toMatchObject({ code: 'action_aborted' })
    expect([untimed, done()]).toEqual([1, 0])
  })
})

describe('approvalDigest', () => {
  it('is the same for the same tool, arguments and step, whatever the order of keys', () => {
    expect(approvalDigest('t', { a: 1, b: 2 }, run)).toBe(
      approvalDigest('t', { b: 2, a: 1 }, { ...run, trace_id: 'another trace' }),
    )
  })

  it('differs with each of them', () => {
    const all = [
      approvalDigest('t', { a: 1 }, run),
      approvalDigest('u', { a: 1 }, run),
      approvalDigest('t', { a: 2 }, run),
      approvalDigest('t', { a: 1 }, { ...run, plan_id: 'other' }),
      approvalDigest('t', { a: 1 }, { ...run, step_id: 'other' }),
      approvalDigest('t', { a: 1 }, undefined),
    ]
    expect(new Set(all).size).toBe(all.length)
  })
})
