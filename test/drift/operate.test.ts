import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, type TestContext } from 'vitest'
import { operate } from '../../src/drift/operate.ts'
import { checkPath, disk, Elsewhere, openRoot } from '../../src/drift/root.ts'
import { scan } from '../../src/drift/scan.ts'
import { selectFiles } from '../../src/drift/select.ts'
import { InvalidInput, Refused } from '../../src/protocol/errors.ts'
import { digestOf } from '../../src/protocol/json.ts'
import type { FileOperation, FileShape } from '../../src/psg/change.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { put } from './given.ts'

const shape = (content: string, mode = 0o644): FileShape => ({
  type: 'file',
  digest: digestOf(content),
  size: content.length,
  mode,
  kept: true,
})
const linkTo = (target: string): FileShape => ({ ...shape(target, 0o777), type: 'link' })
const FOLDER: FileShape = { type: 'folder', size: 0, mode: 0o755, kept: false }

async function operating(files: { readonly [path: string]: string }, contents: readonly string[] = ['new', 'old']) {
  const path = tempFolder()
  put(path, files)
  const root = await openRoot(path)
  const blobs = new Map(contents.map((content) => [digestOf(content), Buffer.from(content)]))
  return {
    path,
    root,
    full: (name: string) => join(path, name),
    text: (name: string) => (existsSync(join(path, name)) ? readFileSync(join(path, name), 'utf8') : undefined),
    operate: (operation: FileOperation) =>
      operate(root, operation, {
        now: Date.now,
        content: async (digest) => blobs.get(digest),
        temporary: '.mplp-deed-0.tmp',
      }),
  }
}
function mounted(folder: string, context: TestContext): void {
  mkdirSync(folder)
  try {
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', folder], { stdio: 'pipe' })
  } catch {
    context.skip('no file system can be mounted here')
  }
  onTestFinished(() => void execFileSync('umount', [folder]))
}
/** Gives the content, and meanwhile somebody else writes a file. */
const takes = (full: string) => async () => {
  writeFileSync(full, 'theirs')
  return Buffer.from('new')
}
const write = (path: string, expect: FileShape | null, become: FileShape): FileOperation => ({
  op: 'put',
  path,
  expect,
  become,
})

describe('an operation on the disk', () => {
  it('replaces a file that is as expected, with content and mode, and leaves nothing else behind', async () => {
    const it = await operating({ a: 'old' })
    expect(await it.operate(write('a', shape('old'), shape('new', 0o755)))).toBe('done')
    expect([it.text('a'), lstatSync(it.full('a')).mode & 0o777, readdirSync(it.path)]).toEqual(['new', 0o755, ['a']])
  })

  it('makes the folders that a file needs', async () => {
    const it = await operating({})
    expect(await it.operate(write('x/y/a', null, shape('new')))).toBe('done')
    expect(it.text('x/y/a')).toBe('new')
  })

  it('leaves alone what is not as expected, whichever way', async () => {
    const it = await operating({ a: 'theirs', b: 'theirs' })
    expect(await it.operate(write('a', shape('old'), shape('new')))).toBe('overtaken')
    expect(await it.operate(write('a', null, shape('new')))).toBe('overtaken')
    expect(await it.operate(write('gone', shape('old'), shape('new')))).toBe('overtaken')
    expect(await it.operate({ op: 'remove', path: 'a', expect: shape('old') })).toBe('overtaken')
    expect(await it.operate({ op: 'move', path: 'a', to: 'c', expect: shape('old') })).toBe('overtaken')
    expect(await it.operate({ op: 'move', path: 'a', to: 'b', expect: shape('theirs') })).toBe('overtaken')
    expect([it.text('a'), it.text('b'), readdirSync(it.path)]).toEqual(['theirs', 'theirs', ['a', 'b']])
  })

  it('leaves alone what somebody changes while the new content is being made', async () => {
    const it = await operating({ a: 'old' })
    const how = (name: string) => ({ now: Date.now, content: takes(it.full(name)), temporary: '.mplp-deed-0.tmp' })
    expect(await operate(it.root, write('a', shape('old'), shape('new')), how('a'))).toBe('overtaken')
    expect(await operate(it.root, write('b', null, shape('new')), how('b'))).toBe('overtaken')
    const removes = async () => {
      rmSync(it.full('gone'), { recursive: true })
      return Buffer.from('new')
    }
    expect(await operate(it.root, write('gone/c', null, shape('new')), { ...how(''), content: removes })).toBe(
      'overtaken',
    )
    expect([it.text('a'), it.text('b'), readdirSync(it.path)]).toEqual(['theirs', 'theirs', ['a', 'b']])
  })

  it('leaves alone what somebody saves between the last look at it and the change', async () => {
    const it = await operating({ a: 'old', b: 'old', c: 'old' })
    const afterLook = (nth: number, edit: () => void) => {
      const { close } = disk
      let left = nth
      disk.close = (fd) => {
        const isFile = disk.fstat(fd).isFile()
        close(fd)
        if (isFile && --left === 0) edit()
      }
      return () => void Object.assign(disk, { close })
    }
    const save = (name: string) => () => {
      writeFileSync(it.full('saved'), `theirs: ${name}`)
      renameSync(it.full('saved'), it.full(name))
    }
    const overtaken = async (operation: FileOperation, looks: number, edit = save(operation.path)) => {
      const stop = afterLook(looks, edit)
      onTestFinished(stop)
      const result = await it.operate(operation)
      stop()
      return result
    }
    expect(await overtaken(write('a', shape('old'), shape('new')), 2)).toBe('overtaken')
    expect(await overtaken({ op: 'remove', path: 'b', expect: shape('old') }, 1)).toBe('overtaken')
    expect(await overtaken({ op: 'move', path: 'c', to: 'd', expect: shape('old') }, 1)).toBe('overtaken')
    expect(['a', 'b', 'c', 'd'].map(it.text)).toEqual(['theirs: a', 'theirs: b', 'theirs: c', undefined])
    expect(readdirSync(it.path).sort()).toEqual(['a', 'b', 'c'])
  })

  it('is done already when it was done before', async () => {
    const it = await operating({ a: 'new', moved: 'old' })
    expect(await it.operate(write('a', shape('old'), shape('new')))).toBe('done')
    expect(await it.operate({ op: 'remove', path: 'gone', expect: shape('old') })).toBe('done')
    expect(await it.operate({ op: 'move', path: 'was', to: 'moved', expect: shape('old') })).toBe('done')
  })

  it('goes on with a move that was cut off between its two halves', async () => {
    const it = await operating({ a: 'old' })
    execFileSync('ln', [it.full('a'), it.full('b')])
    expect(await it.operate({ op: 'move', path: 'a', to: 'b', expect: shape('old') })).toBe('done')
    expect([it.text('a'), it.text('b')]).toEqual([undefined, 'old'])
  })

  it('moves a file from one file system to another, also when it was cut off on the way', async (context) => {
    const it = await operating({ old: 'old' })
    for (const name of ['m', 'n']) mounted(it.full(name), context)
    const move = (path: string, to: string) => it.operate({ op: 'move', path, to, expect: shape('old') })
    expect([await move('old', 'm/a'), it.text('old'), it.text('m/a')]).toEqual(['done', undefined, 'old'])
    put(it.path, { 'n/a': 'theirs' })
    expect(lstatSync(it.full('n/a')).ino).toBe(lstatSync(it.full('m/a')).ino) // and yet it is another file
    expect([await move('m/a', 'n/a'), it.text('m/a'), it.text('n/a')]).toEqual(['overtaken', 'old', 'theirs'])
    put(it.path, { 'n/a': 'old' })
    expect([await move('m/a', 'n/a'), it.text('m/a'), it.text('n/a')]).toEqual(['done', undefined, 'old'])
  })

  it('moves a file into the folder whose name it has', async () => {
    const it = await operating({ 'in/d': 'old' })
    const back: FileOperation = { op: 'move', path: 'in/d', to: 'in/d/e/x', expect: shape('old') }
    expect([await it.operate(back), it.text('in/d/e/x'), readdirSync(it.full('in'))]).toEqual(['done', 'old', ['d']])
    expect(await it.operate(back)).toBe('done')
  })

  it('goes on with such a move that was cut off half way', async () => {
    const it = await operating({ '.mplp-deed-0.tmp': 'old' })
    const back: FileOperation = { op: 'move', path: 'd', to: 'd/x', expect: shape('old') }
    expect([await it.operate(back), it.text('d/x'), readdirSync(it.path)]).toEqual(['done', 'old', ['d']])
  })

  it('leaves a file where it was when it cannot be moved into the folder whose name it has', async () => {
    const it = await operating({ d: 'old' })
    const name = 'x'.repeat(300)
    const back: FileOperation = { op: 'move', path: 'd', to: `d/e/${name}`, expect: shape('old') }
    await expect(it.operate(back)).rejects.toThrow('ENAMETOOLONG')
    expect([it.text('d'), readdirSync(it.path)]).toEqual(['old', ['d']])
    expect(await it.operate({ ...back, to: 'd/x', expect: shape('other') })).toBe('overtaken')
    expect([it.text('d'), readdirSync(it.path)]).toEqual(['old', ['d']])
  })

  it('cleans up what an earlier try left', async () => {
    const it = await operating({ a: 'old', '.mplp-deed-0.tmp': 'half' })
    expect(await it.operate(write('a', shape('old'), shape('new')))).toBe('done')
    expect(readdirSync(it.path)).toEqual(['a'])
  })

  it('puts nothing in place that another process has begun to make under the same name, and leaves it to that one', async () => {
    const it = await operating({ a: 'old' })
    const theirs = it.full('.mplp-deed-0.tmp')
    const { lstat } = disk
    onTestFinished(() => void Object.assign(disk, { lstat }))
    disk.lstat = (async (path: string) => {
      if (existsSync(theirs) && readFileSync(theirs, 'utf8') === 'new') {
        rmSync(theirs)
        writeFileSync(theirs, 'ne')
      }
      return lstat(path)
    }) as typeof lstat
    expect(await it.operate(write('a', shape('old'), shape('new')))).toBe('overtaken')
    expect([it.text('a'), readFileSync(theirs, 'utf8')]).toEqual(['old', 'ne'])
  })

  it('changes only the mode where only the mode differs', async () => {
    const it = await operating({ a: 'old' }, [])
    const { ino } = lstatSync(it.full('a'))
    expect(await it.operate(write('a', shape('old'), shape('old', 0o600)))).toBe('done')
    expect([lstatSync(it.full('a')).mode & 0o777, lstatSync(it.full('a')).ino]).toEqual([0o600, ino])
  })

  it('leaves another name of the same file its mode', async () => {
    const it = await operating({ a: 'old' })
    chmodSync(it.full('a'), 0o600)
    linkSync(it.full('a'), it.full('b'))
    expect(await it.operate(write('a', shape('old', 0o600), shape('old', 0o755)))).toBe('done')
    const modes = ['a', 'b'].map((name) => lstatSync(it.full(name)).mode & 0o777)
    expect([modes, it.text('a'), it.text('b')]).toEqual([[0o755, 0o600], 'old', 'old'])
  })

  it('renames where names differ in case only', async () => {
    const it = await operating({ README: 'old' })
    expect(await it.operate({ op: 'move', path: 'README', to: 'Readme', expect: shape('old') })).toBe('done')
    expect(readdirSync(it.path)).toEqual(['Readme'])
  })

  it('puts a file in place of a link, and a link in place of a file', async () => {
    const it = await operating({ a: 'old', target: '' }, ['new', 'target'])
    symlinkSync('target', it.full('l'))
    expect(await it.operate(write('l', linkTo('target'), shape('new')))).toBe('done')
    expect([lstatSync(it.full('l')).isFile(), it.text('l'), it.text('target')]).toEqual([true, 'new', ''])
    expect(await it.operate(write('a', shape('old'), linkTo('target')))).toBe('done')
    expect(readlinkSync(it.full('a'))).toBe('target')
  })

  it('puts a file in place of a folder only if nothing but empty folders is in it', async () => {
    const it = await operating({ 'full/x': '' })
    mkdirSync(it.full('empty/deep'), { recursive: true })
    chmodSync(it.full('empty'), 0o755)
    expect(await it.operate(write('full', FOLDER, shape('new')))).toBe('in_the_way')
    expect(await it.operate(write('empty', FOLDER, shape('new')))).toBe('done')
    expect([it.text('full/x'), it.text('empty')]).toEqual(['', 'new'])
  })

  it.runIf(process.platform === 'linux')('finds a folder in the way whose name is not UTF-8', async () => {
    const it = await operating({ 'full/y': '' })
    rmSync(it.full('full/y'))
    mkdirSync(Buffer.concat([Buffer.from(it.full('full/')), Buffer.from([0xff])]))
    expect(await it.operate(write('full', FOLDER, shape('new')))).toBe('in_the_way')
    expect(readdirSync(it.full('full'))).toHaveLength(1)
  })

  it('does not put a file below another file', async () => {
    const it = await operating({ a: 'old' })
    expect(await it.operate(write('a/b', null, shape('new')))).toBe('in_the_way')
    expect(it.text('a')).toBe('old')
  })

  it('says so when the content is not kept', async () => {
    const it = await operating({ a: 'old' }, [])
    expect(await it.operate(write('a', shape('old'), shape('new')))).toBe('content_not_kept')
    expect(it.text('a')).toBe('old')
  })
})

describe('never outside of the root', () => {
  it('makes no link that leads out', async () => {
    const targets = ['/etc/passwd', '../../x', 'a/../../x']
    const it = await operating({ 'd/e': '' }, targets)
    for (const target of targets) expect(await it.operate(write('l', null, linkTo(target)))).toBe('link_leaves_root')
    expect(readdirSync(it.path)).toEqual(['d'])
  })

  it('writes, removes and moves nothing through a folder that has become a link', async () => {
    const [it, outside] = [await operating({ 'in/keep': '' }), tempFolder()]
    put(outside, { a: 'old' })
    symlinkSync(outside, it.full('out'))
    expect(await it.operate(write('out/a', shape('old'), shape('new')))).toBe('overtaken')
    expect(await it.operate(write('out/new', null, shape('new')))).toBe('in_the_way')
    expect(await it.operate({ op: 'remove', path: 'out/a', expect: shape('old') })).toBe('overtaken')
    expect(await it.operate({ op: 'move', path: 'out/a', to: 'in/a', expect: shape('old') })).toBe('overtaken')
    expect([readFileSync(join(outside, 'a'), 'utf8'), readdirSync(outside)]).toEqual(['old', ['a']])
  })

  it('reaches nothing below a folder that has become a link, however deep', async () => {
    const [it, outside] = [await operating({ 'in/keep': '' }), tempFolder()]
    put(outside, { 'deep/er/a': 'old' })
    symlinkSync(outside, it.full('out'))
    await expect(it.root.open('out/deep/er/a')).rejects.toThrow(Elsewhere)
    await expect(it.root.list('out/deep')).rejects.toThrow(Elsewhere)
    expect(await it.operate(write('out/deep/er/a', shape('old'), shape('new')))).toBe('overtaken')
    expect(await it.operate(write('out/deep/er/new', null, shape('new')))).toBe('overtaken')
    expect(await it.operate(write('out/deep/new/er', null, shape('new')))).toBe('overtaken')
    expect(await it.operate({ op: 'remove', path: 'out/deep/er/a', expect: shape('old') })).toBe('overtaken')
    expect(await it.operate({ op: 'move', path: 'in/keep', to: 'out/deep/keep', expect: shape('') })).toBe('overtaken')
    expect(readdirSync(outside, { recursive: true }).sort()).toEqual(['deep', 'deep/er', 'deep/er/a'])
    expect(readFileSync(join(outside, 'deep/er/a'), 'utf8')).toBe('old')
  })

  it('replaces a link rather than what it leads to', async () => {
    const [it, outside] = [await operating({}), tempFolder()]
    put(outside, { a: 'theirs' })
    symlinkSync(join(outside, 'a'), it.full('l'))
    expect(await it.operate(write('l', linkTo(join(outside, 'a')), shape('new')))).toBe('done')
    expect([it.text('l'), readFileSync(join(outside, 'a'), 'utf8')]).toEqual(['new', 'theirs'])
  })

  it('reads nothing through a link, a device or a pipe', async () => {
    const [it, outside] = [await operating({}), tempFolder()]
    put(outside, { secret: 'x' })
    symlinkSync(outside, it.full('out'))
    symlinkSync(join(outside, 'secret'), it.full('link'))
    symlinkSync('/dev/zero', it.full('zero'))
    execFileSync('mkfifo', [it.full('pipe')])
    for (const path of ['out/secret', 'link', 'zero', 'pipe'])
      await expect(it.root.open(path)).rejects.toThrow(Elsewhere)
    await expect(it.root.list('out')).rejects.toThrow(Elsewhere)
    expect((await scan(it.root, selectFiles(), { get: () => undefined, paths: () => [] })).paths).toEqual([
      'link',
      'out',
      'zero',
    ])
  })

  it('is not led out by a folder that is swapped for a link again and again', async () => {
    const [it, outside] = [await operating({ 'd/a': 'old' }), tempFolder()]
    put(outside, { a: 'old' })
    let going = true
    const swapping = (async () => {
      while (going) {
        rmSync(it.full('d'), { recursive: true, force: true })
        symlinkSync(outside, it.full('d'))
        await new Promise((resolve) => setImmediate(resolve))
        unlinkSync(it.full('d'))
        put(it.path, { 'd/a': 'old' })
        await new Promise((resolve) => setImmediate(resolve))
      }
    })()
    const results = new Set<string>()
    for (let i = 0; i < 300; i++) results.add(await it.operate(write('d/a', shape('old'), shape('new'))))
    going = false
    await swapping
    expect(readFileSync(join(outside, 'a'), 'utf8')).toBe('old')
    expect(readdirSync(outside)).toEqual(['a'])
    expect([...results].filter((result) => !['done', 'overtaken', 'in_the_way'].includes(result))).toEqual([])
  })

  it('refuses paths that lead out or are none', () => {
    for (const path of ['', '..', '../a', 'a/../../b', '/etc', 'a//b', './a', 'a\0b', 'half\ud83d', 7, undefined])
      expect(() => checkPath(path)).toThrow(InvalidInput)
    for (const path of ['a', 'a/b', '...', 'a..b', 'ä ö/x']) expect(() => checkPath(path)).not.toThrow()
  })

  it('refuses a root that is not there, or is no folder', async () => {
    const it = await operating({ a: '' })
    await expect(openRoot(it.full('nowhere'))).rejects.toThrow(Refused)
    await expect(openRoot(it.full('a'))).rejects.toThrow(Refused)
  })

  it('takes a root that is reached by a link for where it really is', async () => {
    const [it, folder] = [await operating({ a: 'old' }), tempFolder()]
    symlinkSync(it.path, join(folder, 'link'))
    const root = await openRoot(join(folder, 'link'))
    expect(root.path).toBe(it.path)
    writeFileSync(it.full('b'), 'x')
    expect((await root.list('')).map(({ name }) => name).sort()).toEqual(['a', 'b'])
  })
})
