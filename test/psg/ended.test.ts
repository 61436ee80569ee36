import { describe, expect, it } from 'vitest'
import { endedGroups } from '../../src/psg/ended.ts'

describe('groups that have ended', () => {
  it('give way when there are too many, those first that nobody has asked for in the longest time', () => {
    const ended = endedGroups(2)
    for (const group of ['a', 'b', 'c']) ended.add(group)
    ended.use('a')
    ended.use('open') // has not ended: it is none of these
    expect(ended.surplus()).toEqual(['b'])
    ended.add('d')
    expect(ended.surplus()).toEqual(['c'])
    expect(ended.surplus()).toEqual([])
  })

  it('are none of these any more when they are opened again', () => {
    const ended = endedGroups(1)
    for (const group of ['a', 'b', 'c']) ended.add(group)
    ended.delete('a')
    expect(ended.surplus()).toEqual(['b'])
    ended.clear()
    ended.add('d')
    expect(ended.surplus()).toEqual([])
  })
})
