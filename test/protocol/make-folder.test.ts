import { existsSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Refused } from '../../src/protocol/errors.ts'
import { makeFolder } from '../../src/protocol/make-folder.ts'
import { tempFolder } from '../support/temp-folder.ts'

describe('making a folder', () => {
  it('makes those on the way too, and tells the outermost that was not there', () => {
    const root = tempFolder()
    expect(makeFolder(join(root, 'a/b/c'))).toBe(join(root, 'a'))
    expect(statSync(join(root, 'a/b/c')).isDirectory()).toBe(true)
    expect(makeFolder(join(root, 'a/b/d'))).toBe(join(root, 'a/b/d'))
  })

  it('leaves what is there, also behind a link', () => {
    const root = tempFolder()
    mkdirSync(join(root, 'a'))
    symlinkSync(join(root, 'a'), join(root, 'link'))
    for (const there of ['/', root, join(root, 'a'), join(root, 'link')]) expect(makeFolder(there)).toBeUndefined()
  })

  it('tells what stands in the way', () => {
    const root = tempFolder()
    writeFileSync(join(root, 'file'), '')
    symlinkSync(join(root, 'nowhere'), join(root, 'dangling'))
    for (const [path, code] of [
      ['file', 'EEXIST'],
      ['file/below', 'ENOTDIR'],
      ['dangling', 'EEXIST'],
    ] as const)
      expect(() => makeFolder(join(root, path)), path).toThrow(expect.objectContaining({ code }))
  })

  it('comes back from a file system that takes no folders, and says so', ({ skip }) => {
    if (!existsSync('/proc/self')) skip('there is no /proc here')
    expect(() => makeFolder('/proc/mplp/deep')).toThrow(Refused)
    expect(() => makeFolder('/proc/mplp/deep')).toThrow(/\/proc;/)
  })
})
