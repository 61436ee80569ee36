import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, type TestContext } from 'vitest'
import { newAction } from '../../src/ael/action.ts'
import type { Action } from '../../src/ael/adapter.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { type FileOptions, fileAdapter } from '../../src/ael/file.ts'
import type { ActionLayer, Blobs } from '../../src/ael/layer.ts'
import { REDACTED } from '../../src/ael/redact.ts'
import { InvalidInput, Refused, StaleFile, Unavailable } from '../../src/protocol/errors.ts'
import { digestOf, type JsonObject } from '../../src/protocol/json.ts'
import { type AdapterRig, adapterContract } from '../contracts/adapter-contract.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { callOf } from './calls.ts'

adapterContract('file', async (): Promise<AdapterRig> => {
  const root = tempFolder()
  writeFileSync(join(root, 'a.txt'), 'content of a')
  writeFileSync(join(root, 'busy.txt'), 'kept by a store that cannot be reached')
  writeFileSync(join(root, 'slow.txt'), 'kept by a store that takes its time')
  writeFileSync(join(root, 'large.txt'), 'x'.repeat(2_000))
  let begin: () => void
  const began = new Promise<void>((resolve) => {
    begin = resolve
  })
  let release: () => void
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const kept = new Map<string, Uint8Array>()
  const blobs: Blobs = {
    async put(bytes) {
      const text = Buffer.from(bytes).toString()
      if (text.includes('cannot be reached')) throw new Unavailable('the blob store', 'start it')
      if (text.includes('takes its time')) {
        begin()
        await released
      }
      kept.set(digestOf(bytes), bytes.slice())
      return digestOf(bytes)
    },
    get: async (digest) => kept.get(digest),
  }
  const write = (path: string) => ({ operation: 'write', path, content: 'new' })
  return {
    adapter: await fileAdapter({ root, blobs }),
    works: {
      params: { operation: 'read', path: 'a.txt' },
      output: { path: 'a.txt', content: 'content of a', digest: digestOf('content of a'), size: 12, mode: 0o644 },
    },
    refused: [
      { params: { operation: 'chmod', path: 'a.txt' }, path: 'operation' },
      { params: { operation: 'read' }, path: 'path' },
      { params: { operation: 'read', path: '' }, path: 'path' },
      { params: { operation: 'read', path: '../a.txt' }, path: 'path' },
      { params: { operation: 'read', path: 'b/../../a.txt' }, path: 'path' },
      { params: { operation: 'read', path: '/etc/passwd' }, path: 'path' },
      { params: { operation: 'read', path: 'a\0.txt' }, path: 'path' },
      { params: { operation: 'write', path: 'half\ud83d', content: '' }, path: 'path' },
      { params: { operation: 'write', path: 'b.txt' }, path: 'content' },
      { params: { operation: 'write', path: 'b.txt', content: 'a', content_base64: 'YQ==' }, path: 'content' },
      { params: { operation: 'write', path: 'b.txt', content: 7 }, path: 'content' },
      { params: { operation: 'write', path: 'b.txt', content_base64: '?' }, path: 'content_base64' },
      { params: { operation: 'write', path: 'b.txt', content_base64: 'aGVsbG8hA' }, path: 'content_base64' },
      { params: { operation: 'write', path: 'b.txt', content_base64: 7 }, path: 'content_base64' },
      { params: { ...write('b.txt'), mode: 0o4755 }, path: 'mode' },
      { params: { ...write('b.txt'), expected_digest: 'md5:1' }, path: 'expected_digest' },
      { params: { ...write('b.txt'), expected_mode: 0o1777 }, path: 'expected_mode' },
      { params: { operation: 'move', path: 'a.txt' }, path: 'to' },
      { params: { operation: 'move', path: 'a.txt', to: '../b.txt' }, path: 'to' },
    ],
    hangs: write('slow.txt'),
    underWay: () => began,
    async remains() {
      release() // too late: what was aborted must not go on
      await new Promise((resolve) => setImmediate(resolve))
      const half = readdirSync(root).filter((name) => name.endsWith('.tmp'))
      return readFileSync(join(root, 'slow.txt'), 'utf8').includes('takes its time')
        ? half
        : [...half, 'a changed file']
    },
    failsForNow: write('busy.txt'),
    failsForGood: { operation: 'read', path: 'nowhere.txt' },
    large: { operation: 'read', path: 'large.txt' },
    changes: write('a.txt'),
    changed: () => readFileSync(join(root, 'a.txt'), 'utf8'),
    never: {
      misshapen: 'what it gives has the shape of its own making',
      leaks: 'it is given no secret',
      keys: 'a disk does not ask for keys',
    },
  }
})

describe('fileAdapter', () => {
  let root: string
  let outside: string
  let blobs: Blobs & { readonly kept: Map<string, Uint8Array> }
  let layer: ActionLayer
  beforeEach(async () => {
    root = tempFolder()
    outside = tempFolder()
    const kept = new Map<string, Uint8Array>()
    blobs = {
      kept,
      async put(bytes) {
        kept.set(digestOf(bytes), bytes.slice())
        return digestOf(bytes)
      },
      get: async (digest) => kept.get(digest),
    }
    layer = await layerWith()
  })

  const layerWith = async (options: Partial<FileOptions> = {}) =>
    actionLayer({ adapters: [await fileAdapter({ root, blobs, ...options })] })
  const action = (operation: string, path: string, more: JsonObject = {}): Action =>
    newAction({ action_type: 'file_operation', executor_kind: 'tool', params: { operation, path, ...more } })
  const run = async (operation: string, path: string, more: JsonObject = {}) =>
    (await layer.execute(action(operation, path, more))).output as JsonObject
  const failure = (operation: string, path: string, more: JsonObject = {}) =>
    layer.execute(action(operation, path, more)).catch((error) => error)
  const put = (path: string, content: string, mode = 0o644) => {
    writeFileSync(join(root, path), content)
    chmodSync(join(root, path), mode)
  }
  const get = (path: string) => readFileSync(join(root, path), 'utf8')
  const undo = async (done: Action, output: JsonObject) => {
    const back = layer.inverse(done, { output })
    if (typeof back === 'string') return back
    return (await layer.execute(back)).output
  }

  it('refuses a root that is no folder', async () => {
    await expect(fileAdapter({ root: join(root, 'nowhere') })).rejects.toBeInstanceOf(Refused)
    await expect(fileAdapter({ root: '' })).rejects.toBeInstanceOf(InvalidInput)
  })

  it('writes a new file, with its folders, and takes it back', async () => {
    const asked = action('write', 'deep/er/a.txt', { content: 'hello' })
    const output = (await layer.execute(asked)).output as JsonObject
    expect(output).toEqual({ path: 'deep/er/a.txt', digest: digestOf('hello'), size: 5, mode: 0o644, previous: null })
    expect(get('deep/er/a.txt')).toBe('hello')
    await undo(asked, output)
    expect(existsSync(join(root, 'deep/er/a.txt'))).toBe(false)
  })

  it('replaces a file, keeps its mode and what it held, and brings it back', async () => {
    put('run.sh', 'old', 0o755)
    const asked = action('write', 'run.sh', { content: 'new' })
    const output = (await layer.execute(asked)).output as JsonObject
    expect(output.previous).toEqual({ digest: digestOf('old'), mode: 0o755, size: 3, kept: true })
    expect([get('run.sh'), statSync(join(root, 'run.sh')).mode & 0o777]).toEqual(['new', 0o755])
    await undo(asked, output)
    expect([get('run.sh'), statSync(join(root, 'run.sh')).mode & 0o777]).toEqual(['old', 0o755])
  })

  it('deletes a file and brings it back, bytes and mode', async () => {
    const bytes = Buffer.from([0, 255, 10, 128])
    writeFileSync(join(root, 'a.bin'), bytes, { mode: 0o600 })
    const asked = action('delete', 'a.bin')
    const output = (await layer.execute(asked)).output as JsonObject
    expect(existsSync(join(root, 'a.bin'))).toBe(false)
    await undo(asked, output)
    expect(readFileSync(join(root, 'a.bin'))).toEqual(bytes)
    expect(statSync(join(root, 'a.bin')).mode & 0o777).toBe(0o600)
  })

  it('moves a file and back again', async () => {
    put('a.txt', 'a')
    const asked = action('move', 'a.txt', { to: 'sub/b.txt' })
    const output = (await layer.execute(asked)).output as JsonObject
    expect([existsSync(join(root, 'a.txt')), get('sub/b.txt')]).toEqual([false, 'a'])
    await undo(asked, output)
    expect([get('a.txt'), existsSync(join(root, 'sub/b.txt'))]).toEqual(['a', false])
  })

  it('does not move onto a file that exists', async () => {
    put('a.txt', 'a')
    put('b.txt', 'b')
    expect(await failure('move', 'a.txt', { to: 'b.txt' })).toMatchObject({ code: 'action_failed', retryable: false })
    expect([get('a.txt'), get('b.txt')]).toEqual(['a', 'b'])
  })

  it('has nothing to take back after a read, or after a write that changed nothing', async () => {
    put('a.txt', 'a')
    expect(await undo(action('read', 'a.txt'), await run('read', 'a.txt'))).toBe('none_needed')
    const output = await run('write', 'a.txt', { content: 'a' })
    expect(output.unchanged).toBe(true)
    expect(await undo(action('write', 'a.txt', { content: 'a' }), output)).toBe('none_needed')
  })

  it('cannot take back what nobody kept', async () => {
    put('a.txt', 'a')
    layer = actionLayer({ adapters: [await fileAdapter({ root })] })
    const output = await run('write', 'a.txt', { content: 'b' })
    expect(layer.inverse(action('write', 'a.txt', { content: 'b' }), { output })).toBe('irreversible')
  })

  it('changes one file at a time: of two that come at once, the second finds what the first has made', async () => {
    put('a.txt', 'old')
    const asked = ['one', 'two', 'three'].map((content) => action('write', 'a.txt', { content }))
    asked.push(action('move', './a.txt', { to: 'b.txt' }), action('write', 'b.txt', { content: 'four' }))
    const results = await Promise.all(asked.map((one) => layer.execute(one)))
    expect(results.map(({ output }) => (output as JsonObject).previous)).toMatchObject([
      { digest: digestOf('old') },
      { digest: digestOf('one') },
      { digest: digestOf('two') },
      undefined, // of a move
      { digest: digestOf('three') },
    ])
    for (const [i, one] of [...asked.entries()].reverse()) await undo(one, results[i]!.output as JsonObject)
    expect([get('a.txt'), existsSync(join(root, 'b.txt'))]).toEqual(['old', false])
  })

  it('takes back what was written where a link led then, wherever it leads by now', async () => {
    put('a.txt', 'old')
    put('b.txt', 'ours')
    symlinkSync('a.txt', join(root, 'link.txt'))
    const asked = action('write', 'link.txt', { content: 'ours' })
    const output = (await layer.execute(asked)).output as JsonObject
    unlinkSync(join(root, 'link.txt'))
    symlinkSync('b.txt', join(root, 'link.txt'))
    await undo(asked, output)
    expect([get('a.txt'), get('b.txt')]).toEqual(['old', 'ours'])
  })

  it('does not take back what somebody changed since', async () => {
    put('a.txt', 'mine')
    const asked = action('write', 'a.txt', { content: 'ours' })
    const output = (await layer.execute(asked)).output as JsonObject
    put('a.txt', 'theirs')
    const back = layer.inverse(asked, { output }) as Action
    const error = await layer.execute(back).catch((caught) => caught)
    expect(error.cause).toBeInstanceOf(StaleFile)
    expect(get('a.txt')).toBe('theirs')
  })

  it.each([
    ['a change of it', 'old'],
    ['its making', undefined],
  ])('does not take back %s once somebody has changed its mode', async (_, old) => {
    if (old !== undefined) put('a.txt', old)
    const asked = action('write', 'a.txt', { content: 'ours' })
    const output = (await layer.execute(asked)).output as JsonObject
    chmodSync(join(root, 'a.txt'), 0o600)
    const error = await undo(asked, output).catch((caught) => caught)
    expect(error.cause).toBeInstanceOf(StaleFile)
    expect([get('a.txt'), statSync(join(root, 'a.txt')).mode & 0o777]).toEqual(['ours', 0o600])
    chmodSync(join(root, 'a.txt'), 0o644)
    await undo(asked, output)
    expect(existsSync(join(root, 'a.txt')) && get('a.txt')).toBe(old ?? false)
  })

  it('gives what is not UTF-8 as base64, and takes it back', async () => {
    writeFileSync(join(root, 'a.bin'), Buffer.from([255, 254]))
    const { content_base64 } = await run('read', 'a.bin')
    await run('write', 'b.bin', { content_base64: content_base64 as string })
    expect(readFileSync(join(root, 'b.bin'))).toEqual(Buffer.from([255, 254]))
  })

  it('changes nothing that somebody has not seen', async () => {
    put('a.txt', 'changed behind our back')
    const asked: unknown[] = []
    layer = await layerWith({
      staleCheck: (...about) => {
        asked.push(about)
        return true
      },
    })
    for (const [operation, more] of [
      ['write', { content: 'x' }],
      ['delete', {}],
      ['move', { to: 'b.txt' }],
    ] as const) {
      const error = await failure(operation, 'a.txt', more)
      expect(error).toMatchObject({ code: 'action_failed', retryable: false, cause: { path: 'a.txt' } })
      expect(error.cause).toBeInstanceOf(StaleFile)
    }
    expect(asked[0]).toEqual(['a.txt', digestOf('changed behind our back'), {}])
    expect(get('a.txt')).toBe('changed behind our back')
    expect(
      (await failure('write', 'b.txt', { content: 'x', expected_digest: digestOf(Buffer.from('y')) })).cause,
    ).toBeInstanceOf(StaleFile)
  })

  it.each([
    ['write', { content: 'ours' }],
    ['delete', {}],
    ['move', { to: 'b.txt' }],
  ])('notices a change between looking and the %s', async (operation, more) => {
    put('a.txt', 'old')
    const change = () => put('a.txt', 'theirs, longer')
    layer = await layerWith({
      blobs: {
        ...blobs,
        put: async (bytes) => {
          change()
          return digestOf(bytes)
        },
      },
      ...(operation === 'move' && {
        staleCheck: () => {
          change()
          return false
        },
      }),
    })
    expect((await failure(operation, 'a.txt', more)).cause).toBeInstanceOf(StaleFile)
    expect(get('a.txt')).toBe('theirs, longer')
    expect(readdirSync(root)).toEqual(['a.txt'])
  })

  it('notices a change that leaves size and time of the file as they were', async () => {
    put('a.txt', 'old')
    const { atime, mtime } = statSync(join(root, 'a.txt'))
    const replace = async (bytes: Uint8Array) => {
      put('a.txt', 'odd')
      utimesSync(join(root, 'a.txt'), atime, mtime)
      return digestOf(bytes)
    }
    layer = await layerWith({ blobs: { ...blobs, put: replace } })
    utimesSync(join(root, 'a.txt'), atime, mtime)
    expect((await failure('write', 'a.txt', { content: 'ours' })).cause).toBeInstanceOf(StaleFile)
    expect(get('a.txt')).toBe('odd')
  })

  it.each([
    ['write', { content: 'new' }],
    ['delete', {}],
  ])('does not %s any more what its caller gave up while the old content was kept', async (operation, more) => {
    put('a.txt', 'old')
    const controller = new AbortController()
    const slow = async (bytes: Uint8Array) => {
      controller.abort()
      await new Promise((resolve) => setImmediate(resolve))
      return digestOf(bytes)
    }
    layer = await layerWith({ blobs: { ...blobs, put: slow } })
    const ended = layer.execute(action(operation, 'a.txt', more), { signal: controller.signal })
    await expect(ended).rejects.toMatchObject({ code: 'action_aborted' })
    expect(get('a.txt')).toBe('old')
  })

  it('waits for a store that is away no longer than its caller does', async () => {
    put('a.txt', 'old')
    const controller = new AbortController()
    const away = (_: Uint8Array, signal?: AbortSignal) =>
      new Promise<never>((_, reject) => {
        signal?.addEventListener('abort', () => reject(signal.reason))
        controller.abort()
      })
    const adapter = await fileAdapter({ root, blobs: { ...blobs, put: away } })
    const ended = adapter.execute(action('delete', 'a.txt'), callOf({ signal: controller.signal }))
    await expect(ended).rejects.toMatchObject({ code: 'action_aborted' })
    expect(get('a.txt')).toBe('old')
  })

  it('succeeds at a further attempt that finds its work done', async () => {
    put('a.txt', 'a')
    const removal = action('delete', 'a.txt')
    await layer.attempt(removal)
    expect((await layer.attempt(removal, { attempt: 2 })).output).toMatchObject({ unchanged: true })
    await expect(layer.attempt(removal)).rejects.toThrow(/there is no file a.txt/)
    put('b.txt', 'b')
    const moving = action('move', 'b.txt', { to: 'c.txt' })
    await layer.attempt(moving)
    expect((await layer.attempt(moving, { attempt: 2 })).output).toMatchObject({ to: 'c.txt', unchanged: true })
  })

  it('does not say of what an earlier attempt has done that there is nothing to take back', async () => {
    put('a.txt', 'old')
    put('b.txt', 'b')
    put('c.txt', 'c')
    const twice = async (asked: Action) => {
      await layer.attempt(asked) // of which nobody heard
      const { output } = await layer.attempt(asked, { attempt: 2 })
      return undo(asked, output as JsonObject)
    }
    expect(await twice(action('write', 'a.txt', { content: 'new' }))).toBe('irreversible')
    expect(await twice(action('write', 'new.txt', { content: 'new' }))).toBe('irreversible')
    expect(await twice(action('delete', 'b.txt'))).toBe('irreversible')
    expect(await twice(action('move', 'c.txt', { to: 'd.txt' }))).toMatchObject({ path: 'd.txt', to: 'c.txt' })
    expect([get('c.txt'), existsSync(join(root, 'd.txt'))]).toEqual(['c', false])
  })

  it('finishes a move that was cut off between its two halves, and only that', async () => {
    put('a.txt', 'a')
    linkSync(join(root, 'a.txt'), join(root, 'b.txt'))
    const moving = action('move', 'a.txt', { to: 'b.txt' })
    await expect(layer.attempt(moving)).rejects.toThrow(/b.txt exists already/)
    expect((await layer.attempt(moving, { attempt: 2 })).output).toEqual({
      path: 'a.txt',
      to: 'b.txt',
      digest: digestOf('a'),
    })
    expect([existsSync(join(root, 'a.txt')), get('b.txt')]).toEqual([false, 'a'])
    put('a.txt', 'a')
    await expect(layer.attempt(moving, { attempt: 2 })).rejects.toThrow(/b.txt exists already/)
    expect([get('a.txt'), get('b.txt')]).toEqual(['a', 'a'])
  })

  it('shows a reader the old or the new, never a half', async () => {
    const [old, next] = ['a'.repeat(300_000), 'b'.repeat(300_000)]
    put('a.txt', old)
    const seen = new Set<string>()
    const writing = (async () => {
      for (let i = 0; i < 20; i++) await run('write', 'a.txt', { content: i % 2 === 0 ? next : old })
    })()
    let done = false
    void writing.then(() => {
      done = true
    })
    while (!done) {
      const text = get('a.txt')
      seen.add(`${text.length} ${new Set(text).size}`)
      await new Promise((resolve) => setImmediate(resolve))
    }
    await writing
    expect([...seen]).toEqual(['300000 1'])
    expect(readdirSync(root)).toEqual(['a.txt'])
  })

  describe('and links', () => {
    beforeEach(() => {
      writeFileSync(join(outside, 'secret.txt'), 'secret')
      symlinkSync(outside, join(root, 'way-out'))
      symlinkSync(join(outside, 'secret.txt'), join(root, 'leak.txt'))
      symlinkSync(join(outside, 'not-yet.txt'), join(root, 'dangling.txt'))
    })

    it.each([
      ['read', 'way-out/secret.txt', {}],
      ['read', 'leak.txt', {}],
      ['write', 'way-out/secret.txt', { content: 'x' }],
      ['write', 'way-out/new/deep.txt', { content: 'x' }],
      ['write', 'leak.txt', { content: 'x' }],
      ['write', 'dangling.txt', { content: 'x' }],
      ['delete', 'way-out/secret.txt', {}],
      ['delete', 'leak.txt', {}],
      ['move', 'way-out/secret.txt', { to: 'mine.txt' }],
      ['move', 'leak.txt', { to: 'mine.txt' }],
      ['move', 'inner.txt', { to: 'way-out/mine.txt' }],
      ['move', 'inner.txt', { to: 'dangling.txt' }],
    ])('does not %s %s', async (operation, path, more) => {
      put('inner.txt', 'inner')
      const error = await failure(operation, path, more)
      expect(error.code).toMatch(/^action_(denied|failed)$/)
      expect(error.retryable).toBe(false)
      expect(readdirSync(outside)).toEqual(['secret.txt'])
      expect(readFileSync(join(outside, 'secret.txt'), 'utf8')).toBe('secret')
      expect(get('inner.txt')).toBe('inner')
    })

    it('follows a link that stays inside, to read and to write, and leaves the link a link', async () => {
      mkdirSync(join(root, 'real'))
      put('real/a.txt', 'a')
      symlinkSync('real/a.txt', join(root, 'short.txt'))
      symlinkSync('real', join(root, 'folder'))
      expect(await run('read', 'short.txt')).toMatchObject({ path: 'real/a.txt', content: 'a' })
      await run('write', 'short.txt', { content: 'b' })
      await run('write', 'folder/c.txt', { content: 'c' })
      expect([get('real/a.txt'), get('real/c.txt')]).toEqual(['b', 'c'])
      expect(lstatSync(join(root, 'short.txt')).isSymbolicLink()).toBe(true)
    })

    it.each([
      ['is kept out, also through a link', 'write', 'way-in/new/deep.txt', { content: 'x' }, 'action_denied'],
      ['is kept out, moved there through a link', 'move', 'inner.txt', { to: 'way-in/new/deep.txt' }, 'action_denied'],
      ['is kept out by what is new in it', 'write', 'new/hidden/deep.txt', { content: 'x' }, 'action_denied'],
      [
        'expects a file',
        'write',
        'new/er/a.txt',
        { content: 'x', expected_digest: digestOf(Buffer.from('y')) },
        'stale_file',
      ],
      ['holds a secret’s mark', 'write', 'new/er/a.txt', { content: REDACTED }, 'action_failed'],
      ['has nothing to move', 'move', 'absent.txt', { to: 'new/er/a.txt' }, 'action_failed'],
    ])('makes no folder for what %s', async (_, operation, path, more, code) => {
      layer = await layerWith({ mayWrite: (place) => !place.includes('hidden/') })
      put('inner.txt', 'inner')
      mkdirSync(join(root, 'hidden'))
      symlinkSync('hidden', join(root, 'way-in'))
      const before = readdirSync(root, { recursive: true })
      const error = await failure(operation, path, more)
      expect([error.code, (error.cause as { code?: string })?.code]).toContain(code)
      expect(readdirSync(root, { recursive: true })).toEqual(before)
    })

    it('never leaves the root while somebody swaps a folder for a link', async () => {
      mkdirSync(join(root, 'd'))
      let swapping = true
      const swaps = (async () => {
        for (let i = 0; swapping; i++) {
          renameSync(join(root, 'd'), join(root, `aside-${i}`))
          while (!linked(outside, join(root, 'd'))) rmSync(join(root, 'd'), { recursive: true }) // a write has made it anew
          await new Promise((resolve) => setImmediate(resolve))
          unlinkSync(join(root, 'd'))
          renameSync(join(root, `aside-${i}`), join(root, 'd'))
          await new Promise((resolve) => setImmediate(resolve))
        }
      })()
      const ends = { inside: 0, refused: 0 }
      for (let i = 0; i < 150; i++) {
        const error = await run('write', 'd/f.txt', { content: String(i) }).then(
          () => undefined,
          (caught) => caught,
        )
        if (error === undefined) ends.inside++
        else ends.refused++
      }
      swapping = false
      await swaps
      expect(readdirSync(outside)).toEqual(['secret.txt'])
      expect(ends.inside).toBeGreaterThan(0)
      expect(ends.refused).toBeGreaterThan(0)
    })

    it('does not read what is no file', async () => {
      execFileSync('mkfifo', [join(root, 'pipe')])
      mkdirSync(join(root, 'folder'))
      expect(await failure('read', 'pipe')).toMatchObject({ code: 'action_failed' })
      expect(await failure('read', 'folder')).toMatchObject({ code: 'action_failed' })
      expect(await failure('write', 'folder', { content: 'x' })).toMatchObject({ code: 'action_failed' })
      const server = createServer()
      await new Promise<void>((listens) => server.listen(join(root, 'socket'), listens))
      expect(await failure('read', 'socket')).toMatchObject({ message: 'socket is not a file' })
      await new Promise((closed) => server.close(closed))
    })
  })

  it('does not write through a hard link into the other name', async () => {
    writeFileSync(join(outside, 'other.txt'), 'other')
    linkSync(join(outside, 'other.txt'), join(root, 'a.txt'))
    await run('write', 'a.txt', { content: 'mine' })
    expect(readFileSync(join(outside, 'other.txt'), 'utf8')).toBe('other')
  })

  it('refuses what is larger than it may be', async () => {
    put('a.txt', 'x'.repeat(100))
    layer = await layerWith({ maxBytes: 50 })
    expect(await failure('read', 'a.txt')).toMatchObject({ code: 'action_failed', cause: { code: 'too_large' } })
    expect(await failure('write', 'b.txt', { content: 'x'.repeat(51) })).toMatchObject({ cause: { code: 'too_large' } })
  })

  it('does not write the mark back that stands for a secret', async () => {
    put('.env', 'TOKEN=ghp_0123456789abcdefghij0123456789abcdef\nMODE=a\n')
    const { content } = await run('read', '.env')
    expect(content).toBe('TOKEN=[redacted]\nMODE=a\n')
    expect(await failure('write', '.env', { content: String(content).replace('MODE=a', 'MODE=b') })).toMatchObject({
      code: 'action_failed',
    })
    expect(get('.env')).toContain('ghp_')
  })

  it('leaves a read-only folder as it is', async () => {
    mkdirSync(join(root, 'locked'))
    put('locked/a.txt', 'a')
    chmodSync(join(root, 'locked'), 0o555)
    await asOrdinaryUser(root, async () => {
      for (const [operation, more] of [
        ['write', { content: 'b' }],
        ['delete', {}],
        ['move', { to: 'locked/b.txt' }],
      ] as const) {
        const error = await failure(operation, 'locked/a.txt', more)
        expect(error).toMatchObject({ code: 'action_failed', retryable: false })
        expect(error.message).toBe('locked/a.txt: permission is denied')
      }
    })
    expect(readdirSync(join(root, 'locked'))).toEqual(['a.txt'])
    expect(get('locked/a.txt')).toBe('a')
  })

  it('leaves everything as it was when the disk is full', async (context) => {
    const disk = join(root, 'disk')
    mkdirSync(disk)
    onSmallDisk(disk, context)
    try {
      writeFileSync(join(disk, 'a.txt'), 'old')
      const error = await failure('write', 'disk/a.txt', { content: 'x'.repeat(1_000_000) })
      expect(error).toMatchObject({ code: 'action_failed', retryable: false, message: 'disk/a.txt: the disk is full' })
      expect(readdirSync(disk)).toEqual(['a.txt'])
      expect(get('disk/a.txt')).toBe('old')
    } finally {
      execFileSync('umount', [disk])
    }
  })
})

function linked(target: string, path: string): boolean {
  try {
    symlinkSync(target, path)
    return true
  } catch {
    return false
  }
}

/** Permissions mean nothing to root: as somebody else when we are. */
async function asOrdinaryUser(folder: string, work: () => Promise<void>): Promise<void> {
  if (process.geteuid?.() !== 0) return work()
  chmodSync(join(folder, '..'), 0o755)
  chmodSync(join(folder, '../..'), 0o755)
  chmodSync(folder, 0o777)
  process.seteuid?.(65_534)
  try {
    await work()
  } finally {
    process.seteuid?.(0)
  }
}

function onSmallDisk(folder: string, context: TestContext): void {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=128k', 'tmpfs', folder], { stdio: 'pipe' })
  } catch {
    context.skip('a small disk cannot be mounted here')
  }
}
