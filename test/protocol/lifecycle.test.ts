import { describe, expect, it } from 'vitest'
import { InvalidInput } from '../../src/protocol/errors.ts'
import {
  confirmMayMove,
  isTerminal,
  type LifecycleKind,
  lifecycles,
  mayMove,
  moveRule,
  type Statuses,
  statusesOf,
} from '../../src/protocol/lifecycle.ts'
import { shapes } from './facts.ts'

// Every arrow there is, written from the protocol's description; (+) is an addition of this runtime.
const ARROWS: Readonly<Record<LifecycleKind, string>> = {
  context: `
    draft -> active, draft -> closed, active -> suspended, active -> archived,
    suspended -> active, suspended -> closed, archived -> closed`,
  plan: `
    draft -> proposed, draft -> cancelled, proposed -> approved, proposed -> draft, proposed -> cancelled (+),
    approved -> in_progress, approved -> cancelled (+),
    in_progress -> completed, in_progress -> failed, in_progress -> cancelled`,
  step: `
    pending -> in_progress, pending -> blocked, pending -> skipped, in_progress -> completed, in_progress -> failed,
    in_progress -> skipped (+), blocked -> pending, blocked -> skipped (+)`,
  confirm: `
    pending -> approved, pending -> rejected, pending -> cancelled, rejected -> pending (+), rejected -> approved (+)`,
  trace: `
    pending -> running, pending -> cancelled, running -> completed, running -> failed, running -> cancelled`,
  segment: `
    pending -> running, pending -> skipped, running -> completed, running -> failed, running -> cancelled`,
  dialog: `
    active -> paused, paused -> active, active -> completed, active -> cancelled, paused -> cancelled`,
  collab: `
    draft -> active, draft -> cancelled, active -> suspended, suspended -> active, active -> completed, active -> cancelled`,
  extension: `
    registered -> active, active -> inactive, inactive -> active, active -> deprecated, deprecated -> inactive`,
  core: `
    draft -> active, active -> deprecated, deprecated -> archived`,
  network: `
    draft -> provisioning, provisioning -> active, active -> degraded, degraded -> active, active -> maintenance,
    maintenance -> active, active -> retired`,
}

const ENDS: Readonly<Record<LifecycleKind, readonly string[]>> = {
  context: ['closed'],
  plan: ['completed', 'cancelled', 'failed'],
  step: ['completed', 'skipped', 'failed'],
  confirm: ['approved', 'cancelled'],
  trace: ['completed', 'failed', 'cancelled'],
  segment: ['completed', 'failed', 'cancelled', 'skipped'],
  dialog: ['completed', 'cancelled'],
  collab: ['completed', 'cancelled'],
  extension: [],
  core: ['archived'],
  network: ['retired'],
}

const kinds = Object.keys(ARROWS) as LifecycleKind[]
const arrowsOf = (kind: LifecycleKind) =>
  new Set(
    ARROWS[kind]
      .replaceAll('(+)', '')
      .split(',')
      .map((arrow) => arrow.trim()),
  )

it('covers everything that has a status and moves', () => {
  expect(Object.keys(lifecycles).sort()).toEqual([...kinds].sort())
})

describe.each(kinds)('the life of a %s', (kind) => {
  const statuses = (shapes[kind]?.fields['status!'] ?? '').split('|') as Statuses[typeof kind][]

  it('knows the statuses of the protocol, in their order', () => {
    expect(statusesOf(kind)).toEqual(statuses)
  })

  it('allows every arrow of the facts and no other', () => {
    const allowed = statuses
      .flatMap((from) => statuses.map((to) => [from, to] as const))
      .filter(([from, to]) => mayMove(kind, from, to))
    expect(allowed.map(([from, to]) => `${from} -> ${to}`).sort()).toEqual([...arrowsOf(kind)].sort())
  })

  it('ends where the facts say', () => {
    expect(statuses.filter((status) => isTerminal(kind, status))).toEqual(ENDS[kind])
  })
})

it('never lets a plan start without approval', () => {
  for (const status of statusesOf('plan')) expect(mayMove('plan', status, 'in_progress')).toBe(status === 'approved')
})

it('reopens a rejected Confirm of a plan, but not that of a single call', () => {
  const plan = { target_type: 'plan', status: 'rejected' } as const
  const call = { target_type: 'other', status: 'rejected' } as const
  expect([confirmMayMove(plan, 'pending'), confirmMayMove(plan, 'approved')]).toEqual([true, true])
  expect([confirmMayMove(call, 'pending'), confirmMayMove(call, 'approved')]).toEqual([false, false])
  expect(confirmMayMove({ target_type: 'other', status: 'pending' }, 'approved')).toBe(true)
  expect(confirmMayMove({ target_type: 'plan', status: 'approved' }, 'pending')).toBe(false)
})

it('names each arrow', () => {
  expect(moveRule('plan', 'draft', 'proposed')).toBe('lifecycle.plan.draft->proposed')
})

it('refuses kinds and statuses that do not exist', () => {
  const calls = [
    () => mayMove('role' as never, 'draft' as never, 'active' as never),
    () => mayMove('plan', 'ready' as never, 'approved'),
    () => mayMove('plan', 'draft', '__proto__' as never),
    () => isTerminal('step', 'cancelled' as never),
    () => statusesOf('constructor' as never),
    () => confirmMayMove({ target_type: 'plan', status: 'override' as never }, 'approved'),
  ]
  for (const call of calls) expect(call).toThrow(InvalidInput)
})
