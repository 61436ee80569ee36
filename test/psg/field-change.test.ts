import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/protocol/json.ts'
import type { AnyNode, Stored } from '../../src/psg/change.ts'
import { fieldChange, isMove, storedAfter } from '../../src/psg/field-change.ts'

const node = (data: object) => ({ kind: 'action', id: 'a', group: 'p', born: 1, data }) as unknown as AnyNode
const changed = (before: object, after: object) =>
  fieldChange('g/p/action/a', { kind: 'action', id: 'a', before: node(before), after: node(after), statusOnly: false })!
const stored = (data: object): Stored => ({ born: 1, data: data as JsonObject })

describe('psg: a change that is told by its fields', () => {
  it('tells what was, what is now, and of a list that has only grown what came to it', () => {
    const before = { status: 'running', began: [{ at: 0 }], output: 1 }
    const after = { status: 'failed', began: [{ at: 0 }, { at: 2 }], ended: [{ at: 1 }] }
    expect(changed(before, after)).toEqual({
      key: 'g/p/action/a',
      was: { status: 'running', output: 1 },
      now: { status: 'failed', ended: [{ at: 1 }] },
      grew: { began: { from: 1, items: [{ at: 2 }] } },
    })
  })

  it.each([
    ['lost an item', [1, 2], [1]],
    ['had another item before', [1, 2], [3, 2, 4]],
    ['had nothing before', [], [1]],
    ['is no list any more', [1], { 0: 1, 1: 2 }],
  ])('tells a list whole that %s', (_, before, after) => {
    expect(changed({ list: before }, { list: after })).toEqual({
      key: 'g/p/action/a',
      was: { list: before },
      now: { list: after },
    })
  })

  it('leads from one value to the next, however often it is taken on', () => {
    const [before, after] = [
      { began: [1], status: 'running', output: 0 },
      { began: [1, 2, 3], status: 'failed' },
    ]
    const change = changed(before, after)
    const once = storedAfter(change, stored(before))
    expect(once).toEqual(stored(after))
    expect(storedAfter(change, once)).toEqual(once)
    expect(storedAfter(change, stored({ ...after, began: [1, 2, 3, 4, 5] }))).toEqual(once)
  })

  it('is no mere move when a list has grown with it', () => {
    const began = [1]
    expect(isMove(changed({ status: 'running', began }, { status: 'failed', began: [1, 2] }))).toBe(false)
    expect(isMove(changed({ status: 'running', began }, { status: 'failed', began }))).toBe(true)
  })
})
