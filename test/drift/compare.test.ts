import { describe, expect, it } from 'vitest'
import { compare, fileId, isSameShape } from '../../src/drift/compare.ts'
import type { Observed } from '../../src/drift/observe.ts'
import type { FileRecord } from '../../src/psg/change.ts'
import { seen } from './given.ts'

const record = (path: string, content: string, more: Partial<FileRecord> = {}): FileRecord => {
  const { type, digest, size, mode, kept, mtime_ms, ctime_ms, ino } = seen(content)
  const shape = { type: type as 'file', digest: digest!, size, mode, kept }
  return { path, ...shape, mtime: '', agreed: { ...shape, mtime_ms, ctime_ms, ino }, ...more }
}
const believed = (...records: FileRecord[]) => new Map(records.map((each) => [each.path, each]))
const found = (records: ReadonlyMap<string, FileRecord>, there: { readonly [path: string]: Observed }) =>
  compare(records, new Map(Object.entries(there))).map(({ what, path, from }) =>
    from ? [what, path, from] : [what, path],
  )

describe('compare', () => {
  it('finds nothing where both sides agree, whatever the times say', () => {
    expect(found(believed(record('a', 'one')), { a: seen('one', { mtime_ms: 99, ino: 7 }) })).toEqual([])
  })

  it('tells what was added, modified, deleted, and what changed its type or its mode', () => {
    const records = ['kept', 'changed', 'gone', 'linked', 'moded'].map((path) => record(path, path))
    expect(
      found(believed(...records), {
        kept: seen('kept'),
        changed: seen('otherwise'),
        linked: seen('target', { type: 'link', mode: 0o777 }),
        moded: seen('moded', { mode: 0o755 }),
        fresh: seen('fresh'),
      }),
    ).toEqual([
      ['modified', 'changed'],
      ['added', 'fresh'],
      ['deleted', 'gone'],
      ['type_changed', 'linked'],
      ['mode_changed', 'moded'],
    ])
  })

  it('takes a file that left one place and came up in another with the same content for renamed', () => {
    expect(found(believed(record('Readme.md', 'text')), { 'README.md': seen('text') })).toEqual([
      ['renamed', 'README.md', 'Readme.md'],
    ])
  })

  it('knows a renamed file by what the disk last had, though the graph has moved on', () => {
    const moved = record('a', 'new', { agreed: record('a', 'old').agreed! })
    expect(found(believed(moved), { b: seen('old') })).toEqual([['renamed', 'b', 'a']])
  })

  it('does not take a file for renamed that was never on the disk, or is empty', () => {
    const { agreed: _, ...never } = record('a', 'same')
    expect(found(believed(never), { b: seen('same') })).toEqual([
      ['deleted', 'a'],
      ['added', 'b'],
    ])
    expect(found(believed(record('a', '')), { b: seen('') })).toEqual([
      ['deleted', 'a'],
      ['added', 'b'],
    ])
  })

  it('pairs each renamed file once: the same file on the disk first, then the same name, then in order', () => {
    const ino = (path: string, n: number) => record(path, 'x', { agreed: { ...record(path, 'x').agreed!, ino: n } })
    expect(
      found(believed(ino('a', 1), ino('src/b', 2), ino('c', 3), ino('d', 4)), {
        'docs/b': seen('x', { ino: 9 }),
        e: seen('x', { ino: 3 }),
        f: seen('x', { ino: 8 }),
      }),
    ).toEqual([
      ['deleted', 'd'],
      ['renamed', 'docs/b', 'src/b'],
      ['renamed', 'e', 'c'],
      ['renamed', 'f', 'a'],
    ])
  })

  it('pairs what is left in the order of the paths, whatever order it is met in', () => {
    expect(
      found(believed(record('c', 'x'), record('b', 'x'), record('a', 'x')), { z: seen('x'), y: seen('x') }),
    ).toEqual([
      ['deleted', 'c'],
      ['renamed', 'y', 'a'],
      ['renamed', 'z', 'b'],
    ])
  })

  it('has no opinion about the mode of a link, which some systems do not keep', () => {
    const link = (mode: number) => ({ ...seen('target', { type: 'link', mode }), ino: 1 })
    const linked = record('l', 'target', { type: 'link', mode: 0o777 })
    expect(found(believed(linked), { l: link(0o755) })).toEqual([])
    expect(isSameShape(linked, link(0o755))).toBe(true)
  })

  it('has no opinion about a folder or a pipe where it expected nothing', () => {
    expect(found(believed(), { folder: seen('', { type: 'folder' }), pipe: seen('', { type: 'other' }) })).toEqual([])
  })

  it('gives the same disagreement the same digest, and another when either side moves', () => {
    const digest = (a: string, b: string) => compare(believed(record('f', a)), new Map([['f', seen(b)]]))[0]!.digest
    expect(digest('a', 'b')).toBe(digest('a', 'b'))
    expect(new Set([digest('a', 'b'), digest('a', 'c'), digest('c', 'b')]).size).toBe(3)
  })
})

it('gives each path an id of the form that the protocol asks for, always the same', () => {
  const ids = ['a', 'src/a.ts', 'ä/ö', 'x'.repeat(500)].map(fileId)
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(new Set(ids).size).toBe(4)
  expect(fileId('src/a.ts')).toBe(ids[1])
})
