import { unlinkSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { gateOf } from '../../src/psg/confirm.ts'
import { decide } from '../../src/psg/moves.ts'
import { drifted } from './drifted.ts'
import { type Given, put } from './given.ts'

describe('`ask`: people decide', () => {
  const answer = async (it: Given, path: string, status: 'approved' | 'rejected') => {
    const { confirm_id } = it.tracker.findings().find((finding) => finding.path === path)!
    await it.graph.find('confirm', confirm_id!)
    await it.graph.commit(decide(it.graph, confirm_id!, { status, decided_by_role: 'owner' }), {
      actor: 'owner',
      reason: status,
    })
  }
  const until = async (it: Given, done: () => boolean) => {
    await expect.poll(() => it.tracker.idle().then(done), { interval: 10 }).toBe(true)
  }

  it('is what happens where no rule says otherwise, and overwrites nothing', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'new' }))
    const [finding] = it.tracker.findings()
    const confirm = it.graph.get('confirm', finding!.confirm_id!)!.data
    expect(confirm).toMatchObject({ target_type: 'other', target_id: finding!.finding_id, status: 'pending' })
    expect(gateOf(it.graph, confirm.confirm_id)?.data.shows).toStrictEqual({
      finding_id: finding!.finding_id,
      what: 'modified',
      path: 'a',
      severity: 'medium',
      diff: finding!.diff,
      approved: 'files',
      rejected: 'leave',
    })
    expect([it.read('a'), await it.text('a')]).toEqual(['new', 'old'])
    await it.tracker.close()
  })

  it('accepts the file when they approve', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'new' }))
    await answer(it, 'a', 'approved')
    await until(it, () => it.tracker.findings().length === 0)
    expect([await it.both('a'), await it.ends()]).toEqual([['new', 'new'], []])
  })

  it('leaves both as they are when they reject, and asks again when the file changes again', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'new' }))
    await answer(it, 'a', 'rejected')
    await until(it, () => it.tracker.findings()[0]?.declined === true)
    await it.tracker.scan()
    expect([it.tracker.findings()[0]?.declined, await it.both('a')]).toEqual([true, ['old', 'new']])
    put(it.root, { a: 'newer' })
    await it.tracker.scan()
    expect(it.tracker.findings()[0]?.declined).toBeUndefined()
    await it.tracker.close()
  })

  it('restores the file when they reject, where a rule says that this is what it means', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'new' }), {
      rules: [{ match: '**', strategy: 'ask', rejected: 'graph' }],
    })
    await answer(it, 'a', 'rejected')
    await until(it, () => it.tracker.findings().length === 0)
    expect([await it.both('a'), await it.ends()]).toEqual([['old', 'old'], []])
  })

  it('waits over a restart, and takes an answer in that came meanwhile', async () => {
    const it = await drifted({ a: 'old', b: 'old' }, (_, root) => put(root, { a: 'new', b: 'new' }))
    await it.tracker.close()
    await answer(it, 'a', 'approved')
    const again = await it.again()
    expect(again.tracker.findings().map(({ path }) => path)).toEqual(['b'])
    expect([await again.text('a'), await again.text('b')]).toEqual(['new', 'old'])
    await answer(again, 'b', 'approved')
    await until(again, () => again.tracker.findings().length === 0)
    expect(await again.text('b')).toBe('new')
    await again.tracker.close()
  })

  it('does not use an approval for what has changed since', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'seen by them' }))
    await it.tracker.close()
    await answer(it, 'a', 'approved')
    put(it.root, { a: 'not seen by them' })
    const again = await it.again()
    expect([again.tracker.findings().length, await again.text('a')]).toEqual([1, 'old'])
    await again.tracker.close()
  })

  it('uses an approval once', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'new' }))
    const { confirm_id } = it.tracker.findings()[0]!
    await answer(it, 'a', 'approved')
    await until(it, () => it.tracker.findings().length === 0)
    const gate = [...it.graph.state.referrers('confirm', confirm_id!, 'GATES')][0]
    expect(gate?.kind === 'gate' && gate.data.used_by).toBeTruthy()
    put(it.root, { a: 'old' })
    await it.tracker.scan()
    put(it.root, { a: 'newest' })
    await it.tracker.scan()
    expect(it.tracker.findings().map(({ path }) => path)).toEqual(['a'])
    await it.tracker.close()
  })

  it('withdraws its question when the finding is settled by hand', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'new' }))
    const { confirm_id } = it.tracker.findings()[0]!
    await it.settle('a', 'graph')
    expect(it.graph.get('confirm', confirm_id!)?.data.status).toBe('cancelled')
    await it.tracker.close()
  })

  it('asks anew about a finding that could not be settled by hand: the first question is withdrawn', async () => {
    const it = await drifted({ f: 'f' }, (at, root) => {
      unlinkSync(at('f'))
      put(root, { 'f/inner': 'mine' })
    })
    const found = () => it.tracker.findings().find(({ path }) => path === 'f')!
    const first = found().confirm_id!
    expect(await it.settle('f', 'graph')).toBe('refused in_the_way')
    expect(await it.settle('f', 'ask')).toBe('asked')
    const statuses = [first, found().confirm_id!].map((id) => it.graph.get('confirm', id)?.data.status)
    expect(statuses).toEqual(['cancelled', 'pending'])
    await it.tracker.close()
  })

  it('asks again, and says why, when what they decided cannot be done', async () => {
    const it = await drifted(
      { f: 'f' },
      (at, root) => {
        unlinkSync(at('f'))
        put(root, { 'f/inner': 'mine' })
      },
      { rules: [{ match: '**', strategy: 'ask', rejected: 'graph' }] },
    )
    const asked = it.tracker.findings().find(({ path }) => path === 'f')!.confirm_id
    await answer(it, 'f', 'rejected')
    const now = () => it.tracker.findings().find(({ path }) => path === 'f')!.confirm_id
    await until(it, () => now() !== asked)
    const gate = [...it.graph.state.referrers('confirm', now()!, 'GATES')][0]
    expect(gate?.kind === 'gate' && gate.data.shows?.conflict).toEqual({ reason: 'in_the_way' })
    await it.tracker.close()
  })
})
