import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Observed } from '../../src/drift/observe.ts'
import { observe } from '../../src/drift/observe.ts'
import { disk, Elsewhere, openRoot, type Root } from '../../src/drift/root.ts'
import { type ScanOptions, type ScanProgress, scan } from '../../src/drift/scan.ts'
import { type Selection, selectFiles } from '../../src/drift/select.ts'
import { Refused } from '../../src/protocol/errors.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { put } from './given.ts'

const ON_LINUX = process.platform === 'linux' // other systems refuse such names
const bytes = (path: string) => Buffer.from(path, 'latin1')

async function scanning(files: { readonly [path: string]: string }) {
  const path = tempFolder()
  put(path, files)
  const root = await openRoot(path)
  const known = new Map<string, Observed>()
  return {
    path,
    full: (name: string) => join(path, name),
    known,
    async learn() {
      for (const name of Object.keys(files)) {
        const there = await observe(root, name, {
          now: () => Date.now() + 60_000,
          keepBytes: 0,
          keep: async () => false,
        })
        if (there) known.set(name, there)
      }
    },
    root,
    scan: (options: ScanOptions = {}, at = root, selection: Selection = {}) =>
      scan(at, selectFiles(selection), { get: (name) => known.get(name), paths: () => known.keys() }, options),
  }
}

describe('a scan', () => {
  it('suspects everything the first time, and nothing once it is known', async () => {
    const it = await scanning({ a: '1', 'b/c': '2' })
    expect((await it.scan()).paths).toEqual(['a', 'b/c'])
    await it.learn()
    expect(await it.scan()).toMatchObject({ paths: [], files: 2, folders: 2 })
    expect((await it.scan({ thorough: true })).paths).toEqual(['a', 'b/c'])
  })

  it('suspects what is new, what has other times, and what is gone', async () => {
    const it = await scanning({ a: '1', 'b/c': '2', 'd/e': '3' })
    await it.learn()
    writeFileSync(it.full('a'), '9')
    rmSync(it.full('d'), { recursive: true })
    put(it.path, { 'b/new': '' })
    expect((await it.scan()).paths).toEqual(['a', 'b/new', 'd/e'])
  })

  it('does not enter folders that are excluded or ignored', async () => {
    const it = await scanning({ a: '1', 'out/deep/b': '2', 'log/deep/c': '3', '.gitignore': 'log/\n' })
    expect(await it.scan({}, it.root, { exclude: ['out'] })).toMatchObject({ paths: ['.gitignore', 'a'], folders: 1 })
  })

  it('says nothing of what is known and does not belong any more', async () => {
    const it = await scanning({ a: '1', 'out/b': '2' })
    await it.learn()
    expect((await it.scan({}, it.root, { exclude: ['out'] })).paths).toEqual([])
  })

  it('suspects what goes, or gives way to a link, while it is being looked at', async () => {
    const it = await scanning({ a: '1', 'b/c': '2' })
    await it.learn()
    const root: Root = {
      ...it.root,
      list: async (folder, nameless) => {
        if (folder === 'b') throw new Elsewhere('b is a link')
        return it.root.list(folder, nameless)
      },
      stat: async () => undefined,
    }
    expect(await it.scan({}, root)).toMatchObject({ paths: ['a', 'b/c'], unreadable: [] })
  })

  it('looks into some folders only when asked to', async () => {
    const it = await scanning({ 'a/x': '1', 'b/y': '2', 'bb/z': '3' })
    await it.learn()
    for (const name of ['a/x', 'b/y', 'bb/z']) rmSync(it.full(name))
    expect((await it.scan({ folders: ['b'] })).paths).toEqual(['b/y'])
  })

  it('keeps no file open whose rules it has read', async () => {
    const it = await scanning({ '.gitignore': 'x\n', 'a/.mplpignore': 'y\n' })
    const [open, close] = [vi.spyOn(disk, 'open'), vi.spyOn(disk, 'close')]
    onTestFinished(() => void vi.restoreAllMocks())
    await it.scan()
    expect(open).toHaveBeenCalled()
    expect(close).toHaveBeenCalledTimes(open.mock.calls.length)
  })

  it('tells how far it is', async () => {
    const it = await scanning(Object.fromEntries(Array.from({ length: 1_100 }, (_, i) => [`f${i}`, ''])))
    const told: ScanProgress[] = []
    await it.scan({ onProgress: (progress) => told.push(progress) })
    expect(told.map(({ files }) => files)).toEqual([1_000, 1_100])
  })

  it('stops when it is told to', async () => {
    const it = await scanning({ 'a/b/c': '' })
    await expect(it.scan({ signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough')
    const stop = new AbortController()
    const onProgress = () => stop.abort(new Error('enough by now'))
    const all = await scanning(Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`f${i}`, '']))) // in one folder
    await expect(all.scan({ signal: stop.signal, onProgress })).rejects.toThrow('enough by now')
  })

  it('does not take a root that is gone for a thousand deleted files', async () => {
    const it = await scanning({ a: '1' })
    await it.learn()
    renameSync(it.path, `${it.path}-away`)
    await expect(it.scan()).rejects.toThrow(Refused)
    mkdirSync(it.path)
    expect((await it.scan()).paths).toEqual(['a'])
    rmSync(`${it.path}-away`, { recursive: true })
  })

  it('says nothing of what lies in a folder that it may not read', async () => {
    const it = await scanning({ 'a/x': '1', 'b/y': '2' })
    await it.learn()
    rmSync(it.full('a'), { recursive: true })
    rmSync(it.full('b/y'))
    const list = it.root.list
    const denied = Object.assign(new Error('permission denied'), { code: 'EACCES' }) // the superuser, as whom tests may run, is never told that
    const root = { ...it.root, list: (folder: string) => (folder === 'a' ? Promise.reject(denied) : list(folder)) }
    put(it.path, { 'a/x': '' })
    const { paths, unreadable } = await it.scan({}, root)
    expect([paths, unreadable]).toEqual([['b/y'], [{ path: 'a', code: 'EACCES' }]])
  })

  it.runIf(ON_LINUX)('lists what no path can name, its name not being UTF-8, unless it is left out', async () => {
    const it = await scanning({ a: '1', 'sub/b': '2', 'sub/\uFFFD': '3' })
    await it.learn()
    for (const name of ['\xff', 'sub/\xff', 'sub/left-out-\xff']) writeFileSync(bytes(it.full(name)), 'x')
    mkdirSync(bytes(it.full('folder-\xe4')))
    writeFileSync(bytes(it.full('folder-\xe4/deep')), 'x')
    const { paths, unreadable, files } = await it.scan({}, it.root, { exclude: ['**/left-out*'] })
    expect([paths, files]).toEqual([[], 3])
    expect(unreadable.map(({ path }) => path).sort()).toEqual(['folder-\uFFFD', 'sub/\uFFFD', '\uFFFD'])
    expect(new Set(unreadable.map(({ code }) => code))).toEqual(new Set(['EILSEQ']))
  })
})
