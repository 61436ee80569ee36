import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { InvalidInput, Refused } from '../../src/protocol/errors.ts'
import { type FileOptions, fileBackend } from '../../src/vsl/file.ts'
import { objectPath } from '../../src/vsl/file-names.ts'
import { append, collect, everything, write } from '../contracts/backend/given.ts'
import { backendContract } from '../contracts/backend-contract.ts'
import { tempFolder } from '../support/temp-folder.ts'

const freshPath = () => join(tempFolder(), 'state')
const opened = (path: string, options: Partial<FileOptions> = {}) => fileBackend({ path, ...options })
const AUTOCRLF = ['false', 'true', 'input'].map((value) => `core.autocrlf=${value}`)
const unused = (error: unknown) => {
  throw error
}

backendContract(
  'file',
  () => {
    const clock = manualClock()
    const path = freshPath()
    return {
      open: () => opened(path, { clock, onError: unused }),
      elapse: clock.advance,
      remove: () => rm(path, { recursive: true }), // so many files are not left for the end of the run
    }
  },
  { scanKeys: 32_000 }, // each is a file: a hundred thousand take a minute, and beside other tests more than three
)

backendContract(
  'file, in many small journal files,',
  () => {
    const clock = manualClock()
    const path = freshPath()
    return { open: () => opened(path, { clock, segmentBytes: 300, onError: unused }), elapse: clock.advance }
  },
  { scanKeys: 2000 },
)

describe('a file store', () => {
  it('can be read by a person', async () => {
    const path = freshPath()
    const backend = await opened(path)
    await backend.commit(write('g', 0, { entry: { said: 'so' }, puts: [['plan/1/step/build', { b: 1, a: [2] }]] }))
    await backend.set('Notes', 'mine')
    await backend.close()
    const object = JSON.parse(readFileSync(join(path, 'values/plan/1/step/build.json'), 'utf8'))
    expect(object).toMatchObject({ key: 'plan/1/step/build', value: { b: 1, a: [2] }, line: 1 })
    expect(JSON.parse(readFileSync(join(path, 'own/^notes.json'), 'utf8'))).toMatchObject({ value: 'mine' })
    const lines = journalLines(path)
    expect(lines).toMatchObject([
      {
        seq: 1,
        kind: 'commit',
        stream: 'g',
        revision: 1,
        entry: { said: 'so' },
        puts: [['plan/1/step/build', { b: 1, a: [2] }]],
      },
      { seq: 2, kind: 'set', key: 'Notes', value: 'mine' },
    ])
  })

  it.each(AUTOCRLF)(
    'can go through git (%s): a clone is the same store, and an older commit an older one',
    async (set) => {
      const path = freshPath()
      const git = (cwd: string, ...args: string[]) => {
        const identity = ['-c', 'user.name=t', '-c', 'user.email=t@example.com', '-c', set]
        return execFileSync('git', [...identity, ...args], { cwd, encoding: 'utf8' })
      }
      const backend = await opened(path)
      await backend.commit(write('g', 0, { entry: 1, puts: [['k', 1]] }))
      await backend.close()
      git(path, 'init', '-q')
      git(path, 'add', '-A')
      git(path, 'commit', '-qm', 'one')
      const again = await opened(path)
      await again.commit(write('g', 1, { entry: 2, puts: [['k', 2]], inserts: [['new', 1]] }))
      const texts = ['a\nb\n', 'a\r\nb\r\n']
      const digests = await Promise.all(texts.map((text) => again.putBlob(Buffer.from(text))))
      await again.close()
      git(path, 'add', '-A')
      git(path, 'commit', '-qm', 'two')
      expect(git(path, 'ls-files')).not.toMatch(/lock|checkpoint|tmp/)

      const clone = join(tempFolder(), 'clone')
      git(tempFolder(), 'clone', '-q', path, clone)
      const cloned = await opened(clone)
      expect(await collect(cloned.scan(''))).toEqual([
        ['k', 2],
        ['new', 1],
      ])
      expect(await cloned.head('g')).toMatchObject({ revision: 2 })
      for (const [i, digest] of digests.entries())
        expect(Buffer.from((await cloned.getBlob(digest))!).toString()).toBe(texts[i])
      await cloned.close()

      git(path, 'checkout', '-q', 'HEAD~1') // the checkpoint, which is not in git, is now ahead of the journal
      const older = await opened(path)
      expect(await collect(older.scan(''))).toEqual([['k', 1]])
      expect(await collect(older.read('g'))).toHaveLength(1)
      await older.close()
    },
  )

  it('is the same store where git has changed the ends of its lines', async () => {
    const path = freshPath()
    const backend = await opened(path)
    for (let i = 0; i < 3; i++) await backend.commit(write('g', i, { entry: i, puts: [[`k/${i}`, i]] }))
    const before = await everything(backend, ['g'])
    await backend.close()
    rmSync(join(path, 'checkpoint')) // it is not in git
    for (const name of ['mplp-store.json', 'journal/000000000001.jsonl', 'values/k/1.json']) {
      const text = readFileSync(join(path, name), 'utf8')
      writeFileSync(join(path, name), text.replaceAll('\n', '\r\n'))
    }
    const again = await opened(path)
    expect(await everything(again, ['g'])).toEqual(before)
    await again.commit(append('g', 3))
    await again.close()
    const last = await opened(path)
    expect(await collect(last.read('g'))).toHaveLength(4)
    await last.close()
  })

  it('lets commits that wait together share one sync', async () => {
    const path = freshPath()
    const backend = await opened(path)
    await Promise.all(Array.from({ length: 32 }, (_, i) => backend.commit(append(`s/${i}`, 0))))
    await backend.close()
    const durable = journalLines(path).map((line) => line.durable)
    expect(durable).toHaveLength(32)
    expect(new Set(durable).size).toBeLessThan(4)
  })

  it.each([
    ['path', 'type', { path: '' }],
    ['path', 'type', { path: 'a\0b' }],
    ['path', 'required', {}],
    ['segmentBytes', 'range', { path: 'x', segmentBytes: Number.NaN }],
    ['segmentBytes', 'range', { path: 'x', segmentBytes: '4' }],
    ['onError', 'type', { path: 'x', onError: 'log' }],
  ])('refuses options whose %s does not fit (%s): %j', async (path, rule, options) => {
    const error: InvalidInput = await fileBackend(options as unknown as FileOptions).catch((error) => error)
    expect(error).toBeInstanceOf(InvalidInput)
    expect(error.problems).toEqual([expect.objectContaining({ path, rule })])
    expect(existsSync('x')).toBe(false)
  })
})

describe('names of object files', () => {
  it('keep two keys apart also where capitals do not count, and fit every file system', () => {
    const keys = [
      'a',
      'A',
      'a/b',
      'a.json/b',
      'a.json',
      'a/',
      'a//',
      '/',
      '//',
      '.',
      '..',
      './a',
      '../a',
      '~',
      '~/a',
      '^a',
      '%41',
      '%',
      'a%',
      'ä',
      'a\u0308',
      '😀',
      'con',
      'x'.repeat(1024),
      'X'.repeat(1024),
      'x/'.repeat(512),
      'X/'.repeat(512),
      `${'x/'.repeat(511)}yz`,
      'ü'.repeat(512),
      ' ',
      '\n',
      'a:b',
    ]
    const paths = keys.map((key) => objectPath(key).toLowerCase())
    expect(new Set(paths).size).toBe(keys.length)
    for (const path of paths) {
      expect(path).toMatch(/^[a-z0-9_.%^~/-]+\.json$/)
      expect(path.split('/').every((part) => part.length <= 210 && part !== '.' && part !== '..' && part !== '')).toBe(
        true,
      )
      expect(path.length).toBeLessThan(2000)
    }
    // Where a file lies no folder lies: a key may begin with another one and a slash.
    expect(objectPath('a.json/b')).not.toMatch(/^a\.json\//)
  })
})

describe("a folder that is not a store's", () => {
  it('is refused with other things in it, and left as it was', async () => {
    const path = freshPath()
    mkdirSync(path)
    writeFileSync(join(path, 'thesis.txt'), 'mine')
    await expect(opened(path)).rejects.toThrow(Refused)
    expect(readdirSync(path)).toEqual(['thesis.txt'])
  })

  it('is refused when it is a file, or below one', async () => {
    const path = freshPath()
    writeFileSync(path, 'a file')
    await expect(opened(path)).rejects.toThrow(Refused)
    await expect(opened(join(path, 'below'))).rejects.toThrow(Refused)
  })

  it('is refused when the store in it is of another version or another kind', async () => {
    const path = freshPath()
    await (await opened(path)).close()
    for (const mark of ['{"format":"mplp-runtime file store","version":2}', '{"format":"else"}', 'null', 'no JSON']) {
      writeFileSync(join(path, 'mplp-store.json'), mark)
      await expect(opened(path), mark).rejects.toThrow(Refused)
    }
  })

  it('becomes one for one of several that open it at once in one process, and the others are told so', async () => {
    const path = freshPath()
    const all = await Promise.allSettled([opened(path), opened(path), opened(path)])
    const reasons = all.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
    for (const one of all) if (one.status === 'fulfilled') await one.value.close()
    expect(reasons.length).toBeGreaterThanOrEqual(2)
    for (const reason of reasons) expect(reason).toBeInstanceOf(Refused)
  })

  it('becomes one when it is empty but for git', async () => {
    const path = freshPath()
    mkdirSync(join(path, '.git'), { recursive: true })
    writeFileSync(join(path, '.gitignore'), 'mine') // and what was in it stays
    await (await opened(path)).close()
    expect(existsSync(join(path, 'mplp-store.json'))).toBe(true)
    expect(readFileSync(join(path, '.gitignore'), 'utf8')).toBe('mine\n/locks/\n/checkpoint\n*.tmp\n')
  })
})

const journalLines = (path: string) => {
  const [name] = readdirSync(join(path, 'journal'))
  const text = readFileSync(join(path, 'journal', name!), 'utf8')
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).line)
}
