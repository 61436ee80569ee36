import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { Corrupt, MplpError, OutcomeUnknown, Unavailable } from '../../src/protocol/errors.ts'
import type { Backend, Write } from '../../src/vsl/backend.ts'
import { type FileOptions, fileBackend } from '../../src/vsl/file.ts'
import { sealed } from '../../src/vsl/file-lines.ts'
import { objectPath } from '../../src/vsl/file-names.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { append, collect, everything, write } from '../contracts/backend/given.ts'
import { everyFile } from '../support/every-file.ts'
import { tempFolder } from '../support/temp-folder.ts'

const freshPath = () => join(tempFolder(), 'state')
const opened = (path: string, options: Partial<FileOptions> = {}) => fileBackend({ path, ...options })

describe('a file store after a crash', () => {
  it('is what it was after some commit, wherever the journal breaks off', async () => {
    const path = freshPath()
    const backend = await opened(path)
    for (const step of HISTORY) await step(backend)
    await backend.close()
    const text = readFileSync(journalFile(path))
    const states = await statesOf(HISTORY)
    for (const length of lengths(text)) {
      const broken = freshPath()
      cpSync(path, broken, { recursive: true }) // with object files that are ahead of the journal
      rmSync(join(broken, 'checkpoint'))
      truncateSync(journalFile(broken), length)
      const again = await opened(broken)
      const lines = text.subarray(0, length).filter((byte) => byte === 10).length
      expect(await stateOf(again), `${length} bytes`).toEqual(states[lines])
      await again.commit(append('later', 0))
      await again.close()
      const third = await opened(broken)
      expect(await collect(third.read('later'))).toHaveLength(1)
      await third.close()
      rmSync(broken, { recursive: true })
    }
  }, 120_000)

  it('has what was acknowledged also when no object file was written yet', async () => {
    const path = freshPath()
    const backend = await opened(path)
    for (const step of HISTORY) await step(backend)
    const copy = freshPath()
    cpSync(path, copy, { recursive: true })
    rmSync(join(copy, 'locks'), { recursive: true })
    for (const projection of ['values', 'own']) rmSync(join(copy, projection), { recursive: true, force: true })
    await backend.close()
    const again = await opened(copy)
    expect(await stateOf(again)).toEqual((await statesOf(HISTORY)).at(-1))
    await again.close()
    for (const key of ['a/1', 'b']) expect(existsSync(join(copy, 'values', objectPath(key)))).toBe(true)
    expect(existsSync(join(copy, 'values', objectPath('gone')))).toBe(false)
  })

  it('drops a batch of which nobody was told, even if only its first line is torn', async () => {
    const path = freshPath()
    const backend = await opened(path)
    await backend.commit(write('g', 0, { entry: 1, puts: [['k', 1]] }))
    await backend.close()
    rmSync(join(path, 'checkpoint'))
    const line = (seq: number) => sealed(seq, 1, `"kind":"set","key":"k${seq}","value":${seq}`)
    writeFileSync(journalFile(path), `${line(2).slice(0, 40)}\n${line(3)}${line(4)}`, { flag: 'a' })
    const again = await opened(path)
    expect(await again.get('k3')).toBeUndefined()
    expect(await collect(again.scan(''))).toEqual([['k', 1]])
    await again.set('k2', 'another')
    await again.close()
    expect(journal(path).trimEnd().split('\n')).toHaveLength(2)
  })

  it('does without its checkpoint when that is missing, damaged or from elsewhere', async () => {
    const path = freshPath()
    const backend = await opened(path)
    for (const step of HISTORY) await step(backend)
    await backend.close()
    const file = join(path, 'checkpoint')
    const good = readFileSync(file, 'utf8')
    const state = (await statesOf(HISTORY)).at(-1)
    const elsewhere = freshPath()
    const other = await opened(elsewhere)
    for (let i = 0; i < 3; i++) await other.commit(append('other', i))
    await other.close()
    for (const text of [
      '',
      good.slice(0, 100),
      good.replace('"b"', '"c"'),
      readFileSync(join(elsewhere, 'checkpoint'), 'utf8'),
    ]) {
      writeFileSync(file, text)
      const again = await opened(path)
      expect(await stateOf(again)).toEqual(state)
      await again.close()
    }
  })
})

describe('a file store that is copied while it is at work', () => {
  it('is whole in every copy, also where a journal file or a checkpoint was just begun', async () => {
    const path = freshPath()
    const backend = await opened(path, { segmentBytes: 1500 })
    const acknowledged = new Map<string, number>()
    const streams = ['a', 'b', 'c']
    const parts = (stream: string) => ['x', 'y', 'z'].map((part) => `${stream}/${part}`)
    const someCommits = async (stream: string) => {
      const from = acknowledged.get(stream) ?? 0
      for (let n = from + 1; n <= from + 8; n++) {
        const puts = parts(stream).map((key) => [key, n] as const)
        const deletes = n > 5 ? [`${stream}/new/${n - 5}`] : []
        await backend.commit(write(stream, n - 1, { entry: n, puts, deletes, inserts: [[`${stream}/new/${n}`, n]] }))
        acknowledged.set(stream, n)
      }
    }
    for (let i = 0; i < 26; i++) {
      const work = streams.map(someCommits)
      for (let turns = i % 13; turns >= 0; turns--) await new Promise((resolve) => setImmediate(resolve))
      const before = new Map(acknowledged)
      const copy = freshPath()
      cpSync(path, copy, { recursive: true, filter: (from) => !/locks|\.tmp$/.test(from) })
      await Promise.all(work)
      const again = await opened(copy)
      for (const stream of streams) {
        const { revision } = await again.head(stream)
        expect(revision).toBeGreaterThanOrEqual(before.get(stream) ?? 0)
        const values = await again.getMany(parts(stream))
        expect([...values.values()]).toEqual(revision === 0 ? [] : [revision, revision, revision])
        expect(await collect(again.scan(`${stream}/new/`))).toHaveLength(Math.min(revision, 5))
        const after = Math.max(0, revision - 10)
        expect(await collect(again.read(stream, { after }))).toHaveLength(revision - after)
      }
      await again.close()
      rmSync(copy, { recursive: true })
    }
    await backend.close()
  }, 120_000)
})

describe('a damaged file store', () => {
  it('is not opened when a line in the middle is not what was written, closed well or not', async () => {
    const path = freshPath()
    const backend = await opened(path)
    for (let i = 0; i < 4; i++) await backend.commit(append('g', i))
    await backend.close()
    const text = readFileSync(journalFile(path))
    const lastLine = text.lastIndexOf(10, -2) + 1
    for (const closedWell of [true, false]) {
      for (let at = 0; at < lastLine; at += 7) {
        const broken = freshPath()
        cpSync(path, broken, { recursive: true })
        if (!closedWell) rmSync(join(broken, 'checkpoint'))
        writeFileSync(journalFile(broken), flipped(text, at))
        await expect(opened(broken), `byte ${at}`).rejects.toThrow(Corrupt)
        expect(readFileSync(journalFile(broken)).equals(flipped(text, at))).toBe(true)
        expect(readdirSync(join(broken, 'locks'))).toEqual([])
        rmSync(broken, { recursive: true })
      }
    }
  })

  it('is not opened when the last line is not what was written, if it was closed well', async () => {
    const path = freshPath()
    const backend = await opened(path)
    for (let i = 0; i < 2; i++) await backend.commit(append('g', i))
    await backend.close()
    const text = readFileSync(journalFile(path))
    writeFileSync(journalFile(path), flipped(text, text.length - 10))
    await expect(opened(path)).rejects.toThrow(Corrupt)
  })

  it('says so when an older journal file is read that is damaged, missing or short', async () => {
    const spoil: ((file: string) => void)[] = [
      (file) => writeFileSync(file, flipped(readFileSync(file), 60)),
      (file) => rmSync(file),
      (file) => truncateSync(file, readFileSync(file).length - 5),
    ]
    for (const spoiled of spoil) {
      const path = freshPath()
      const backend = await opened(path, { segmentBytes: 200 })
      for (let i = 0; i < 10; i++) await backend.commit(append('g', i))
      await backend.close()
      spoiled(journalFiles(path)[1]!)
      const again = await opened(path, { segmentBytes: 200 })
      expect(await again.head('g')).toMatchObject({ revision: 10 })
      expect(await collect(again.read('g', { after: 9 }))).toHaveLength(1)
      await expect(collect(again.read('g'))).rejects.toThrow(Corrupt)
      await expect(collect(again.feed())).rejects.toThrow(Corrupt)
      await again.close()
    }
  })

  it('goes no further when the next journal file is there already, and has lost nothing when it is opened again', async () => {
    const path = freshPath()
    const errors: unknown[] = []
    const backend = await opened(path, { segmentBytes: 10, onError: (error) => errors.push(error) })
    writeFileSync(join(path, 'journal/000000000002.jsonl'), '')
    await backend.commit(append('g', 0))
    await expect(backend.commit(append('g', 1))).rejects.toThrow(Unavailable)
    expect(errors).toHaveLength(1)
    await backend.close()
    const again = await opened(path)
    expect(await collect(again.read('g'))).toHaveLength(1)
    await again.commit(append('g', 1))
    await again.close()
  })

  it('is not opened when a journal file ends before the next one begins', async () => {
    const path = freshPath()
    const backend = await opened(path, { segmentBytes: 10 })
    for (let i = 0; i < 3; i++) await backend.commit(append('g', i))
    await backend.close()
    rmSync(journalFiles(path)[2]!)
    await expect(opened(path)).rejects.toThrow(Corrupt)
  })

  it('is not taken for a new one when its journal is gone', async () => {
    const path = freshPath()
    const backend = await opened(path)
    await backend.commit(write('g', 0, { entry: 1, puts: [['k', 1]] }))
    await backend.close()
    rmSync(join(path, 'journal'), { recursive: true })
    await expect(opened(path)).rejects.toThrow(Corrupt)
    await expect(opened(path)).rejects.toThrow(Corrupt) // nor is a new journal begun by that
    rmSync(join(path, 'checkpoint')) // as in a clone
    await expect(opened(path)).rejects.toThrow(Corrupt)
    await expect(opened(path)).rejects.toThrow(Corrupt)
  })

  it('is not opened, and nothing in it changed, when a line that the checkpoint does not know is damaged', async () => {
    const path = freshPath()
    const backend = await opened(path, { segmentBytes: 200 })
    for (let i = 0; i < 60; i++) await backend.commit(write('g', i, { entry: i, puts: [[`k/${i}`, i]] }))
    await backend.close()
    rmSync(join(path, 'checkpoint'))
    rmSync(join(path, 'values'), { recursive: true })
    const file = journalFiles(path).at(-2)!
    writeFileSync(file, flipped(readFileSync(file), 60))
    const later = setTimeout
    vi.spyOn(globalThis, 'setTimeout').mockImplementation((work) => later(work, 0)) // as if reading the journal took long
    onTestFinished(() => void vi.restoreAllMocks())
    await expect(opened(path)).rejects.toThrow(Corrupt)
    await new Promise((resolve) => later(resolve, 1)) // whatever was to be done by then
    expect(existsSync(join(path, 'values'))).toBe(false)
  })

  it('never takes a hand edit for truth', async () => {
    const path = freshPath()
    const backend = await opened(path)
    await backend.commit(
      write('g', 0, {
        puts: [
          ['a', { n: 1 }],
          ['b', { n: 2 }],
          ['c', { n: 3 }],
          ['d', { n: 4 }],
        ],
      }),
    )
    await backend.commit(write('g', 0, { puts: [['d', { n: 5 }]] }))
    await backend.close()
    const file = (key: string) => join(path, 'values', `${key}.json`)
    const texts = Object.fromEntries(['a', 'b', 'c', 'd'].map((key) => [key, readFileSync(file(key), 'utf8')]))
    writeFileSync(file('a'), texts.a!.replace('"n": 1', '"n": 9'))
    writeFileSync(file('b'), texts.a!) // another value's file, whole and well
    rmSync(file('c'))
    writeFileSync(file('d'), 'not even JSON')
    writeFileSync(file('stray'), texts.a!)
    const again = await opened(path)
    expect(await collect(again.scan(''))).toEqual([
      ['a', { n: 1 }],
      ['b', { n: 2 }],
      ['c', { n: 3 }],
      ['d', { n: 5 }],
    ])
    await again.close()
  })

  it('tells of a blob that is not what its name says', async () => {
    const path = freshPath()
    const backend = await opened(path)
    const digest = await backend.putBlob(new Uint8Array([1, 2, 3]))
    writeFileSync(join(path, 'blobs', digest.slice(7, 9), digest.slice(9)), 'changed')
    await expect(backend.getBlob(digest)).rejects.toThrow(Corrupt)
    await backend.close()
  })

  it('says in an error of its own that the folder of its blobs cannot be read', async () => {
    const path = freshPath()
    const backend = await opened(path)
    const digest = await backend.putBlob(Buffer.from('text'))
    const folder = join(path, 'blobs', digest.slice(7, 9))
    rmSync(folder, { recursive: true })
    symlinkSync(folder, folder) // leads nowhere but to itself
    await expect(collect(backend.blobs())).rejects.toThrow(Unavailable)
    await backend.close()
  })

  it('does not say that a key is gone of which it does not know whether it was set', async () => {
    const path = freshPath()
    const backend = await opened(path)
    const files = await everyFile()
    vi.spyOn(files, 'datasync').mockRejectedValueOnce(new Error('the disk failed'))
    await expect(backend.set('own', 1)).rejects.toThrow(OutcomeUnknown)
    await expect(backend.delete('own')).rejects.toThrow(Unavailable)
    await backend.close()
    const again = await opened(path)
    expect(await again.get('own')).toBe(1)
    await again.delete('own')
    expect(await again.get('own')).toBeUndefined()
    await again.close()
  })

  it('tells of a lock that it cannot take away, and is closed all the same', async () => {
    const path = freshPath()
    const told: unknown[] = []
    const backend = await opened(path, { onError: (error) => told.push(error) })
    await backend.commit(append('g', 0))
    const [claim] = readdirSync(join(path, 'locks'))
    rmSync(join(path, 'locks', claim!))
    mkdirSync(join(path, 'locks', claim!)) // a folder is not removed like a file
    await backend.close()
    expect(told).toEqual([expect.any(MplpError)])
    rmSync(join(path, 'locks'), { recursive: true })
    const again = await opened(path)
    expect(await collect(again.read('g'))).toHaveLength(1)
    await again.close()
  })

  it('tells once a minute of files that cannot be written, however often it is tried', async () => {
    const path = freshPath()
    const errors: unknown[] = []
    const clock = manualClock()
    const backend = await opened(path, { clock, segmentBytes: 10, onError: (error) => errors.push(error) })
    mkdirSync(join(path, 'values'))
    writeFileSync(join(path, 'values/blocked'), 'a file where a folder must be')
    const put = async (revision: number) =>
      backend.commit(write('g', revision, { entry: 1, puts: [['blocked/1', revision]] }))
    await put(0)
    await expect.poll(() => errors).toHaveLength(1)
    await put(1)
    await backend.close()
    expect(errors).toHaveLength(1)
  })

  it('keeps values whose files cannot be written, and writes them when they can', async () => {
    const path = freshPath()
    const errors: unknown[] = []
    const backend = await opened(path, { onError: (error) => errors.push(error) })
    mkdirSync(join(path, 'values'))
    writeFileSync(join(path, 'values/blocked'), 'a file where a folder must be')
    await backend.commit(
      write('g', 0, {
        puts: [
          ['blocked/1', 'kept'],
          ['free', 1],
        ],
      }),
    )
    await backend.close()
    expect(errors.length).toBeGreaterThan(0)
    for (const error of errors) expect(error).toBeInstanceOf(MplpError)
    const again = await opened(path, {
      onError: () => {
        throw new Error('nor does it keep anything from its end that whoever is told throws')
      },
    })
    expect((await again.getMany(['blocked/1'])).get('blocked/1')).toBe('kept')
    rmSync(join(path, 'values/blocked'))
    await again.close()
    expect(existsSync(join(path, 'values/blocked/1.json'))).toBe(true)
  })
})

const journalFiles = (path: string) =>
  readdirSync(join(path, 'journal'))
    .sort()
    .map((name) => join(path, 'journal', name))
const journalFile = (path: string) => journalFiles(path).at(-1)!
const journal = (path: string) => readFileSync(journalFile(path), 'utf8')

/** One bit changed, and never into a newline. */
function flipped(text: Buffer, at: number): Buffer {
  const copy = Buffer.from(text)
  copy[at] = copy[at]! ^ 1
  return copy
}

const commit = (parts: Write) => (backend: Backend) => backend.commit(parts)
const holder = thisHolder('one')
/** Each step is one line of the journal. */
const HISTORY: readonly ((backend: Backend) => Promise<unknown>)[] = [
  commit(write('g', 0, { entry: { n: 1 }, inserts: [['a/1', { z: 1, a: 2 }]], puts: [['gone', 1]] })),
  (backend) => backend.set('own', ['ü', '\ud800']),
  commit(
    write('h', 0, {
      entry: { n: 2 },
      puts: [
        ['a/1', 'again'],
        ['b', null],
      ],
    }),
  ),
  (backend) => backend.acquire('g', holder, 1000),
  commit(write('g', 1, { puts: [['b', 2]], fence: 1 })),
  commit(write('g', 1, { entry: { n: 3 }, deletes: ['gone'], puts: [['c', 1]] })),
  (backend) => backend.release({ stream: 'g', holder, token: 1, ttlMs: 1000 }),
]

/** What memory holds after each step, as the other stores must. */
async function statesOf(history: typeof HISTORY): Promise<unknown[]> {
  const memory = memoryBackend()
  const states = [await stateOf(memory)]
  for (const step of history) {
    await step(memory)
    states.push(await stateOf(memory))
  }
  return states
}

/** Without positions, which are each store's own. */
async function stateOf(backend: Backend): Promise<unknown> {
  const state = (await everything(backend, ['g', 'h'])) as { feed: { position?: string }[] }
  return { ...state, feed: state.feed.map(({ position: _, ...entry }) => entry) }
}

/** Around every end of a line, and every few bytes between them. */
function lengths(text: Buffer): number[] {
  const near = (length: number) => [-2, -1, 0, 1].some((d) => text[length - 1 + d] === 10)
  return Array.from({ length: text.length + 1 }, (_, i) => i).filter((i) => i % 11 === 0 || near(i))
}
