import { cpSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import type { Backend, Entry } from '../../src/vsl/backend.ts'
import { type FileOptions, fileBackend } from '../../src/vsl/file.ts'
import { blobFiles } from '../../src/vsl/file-blobs.ts'
import { openJournal } from '../../src/vsl/file-journal.ts'
import { setText, sumOf } from '../../src/vsl/file-lines.ts'
import { objects } from '../../src/vsl/file-objects.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { append, bodies, collect, everything, write } from '../contracts/backend/given.ts'
import { tempFolder } from '../support/temp-folder.ts'

const freshPath = () => join(tempFolder(), 'state')
const unused = (error: unknown) => {
  throw error
}
const opened = (path: string, options: Partial<FileOptions> = {}) =>
  fileBackend({ path, segmentBytes: 5000, onError: unused, ...options })
const OLD = Array.from({ length: 9 }, (_, i) => `old/${i}`)
const STREAMS = [...OLD, 'kept']
const holder = thisHolder('one')

describe('what a file store has forgotten', () => {
  it('gives its room back', async () => {
    const path = freshPath()
    await filled(path)
    const before = bytesIn(path)
    await forgotten(path)
    expect(bytesIn(path)).toBeLessThan(before / 3)
    expect(bytesIn(join(path, 'journal'))).toBeLessThan(before / 3)
  })

  it('does not change what the store is, with its checkpoint or without', async () => {
    const path = freshPath()
    await filled(path)
    const state = await forgotten(path)
    expect(await stateOf(path)).toEqual(state)
    for (const names of [['checkpoint'], ['values', 'own'], ['checkpoint', 'values', 'own']]) {
      for (const name of names) rmSync(join(path, name), { recursive: true, force: true })
      expect(await stateOf(path), `without ${names}`).toEqual(state)
    }
  })

  it('does not change what the store is when it died before its next checkpoint', async () => {
    const path = freshPath()
    const checkpoints: Buffer[] = []
    const file = join(path, 'checkpoint')
    await filled(path, () => checkpoints.push(readFileSync(file)))
    const state = await forgotten(path)
    for (const checkpoint of checkpoints) {
      writeFileSync(file, checkpoint)
      expect(await stateOf(path)).toEqual(state)
    }
    expect(checkpoints.map((text) => isBelieved(path, text))).toEqual(expect.arrayContaining([true, false]))
  })

  it('is as well gone in every copy that is made while room is given back', async () => {
    const path = freshPath()
    await filled(path)
    const backend = await opened(path)
    for (const [i, stream] of OLD.entries()) {
      await forget(backend, stream)
      await backend.commit(write('kept', i + 11, { entry: 'x'.repeat(5000), puts: [['newest', i]] })) // goes on to a new file
      const before = await everything(backend, STREAMS)
      for (let turn = 0; turn < 4; turn++) {
        for (let turns = i * turn; turns > 0; turns--) await nextTurn()
        const copy = freshPath()
        cpSync(path, copy, { recursive: true, filter: (from) => !/locks|\.tmp$/.test(from) })
        expect(await stateOf(copy)).toEqual(before)
        rmSync(copy, { recursive: true })
      }
    }
    await backend.close()
  }, 60_000)

  it('leaves lines that a person can read, each at its number', async () => {
    const path = freshPath()
    await filled(path)
    const before = linesIn(path).length
    await forgotten(path)
    const lines = linesIn(path)
    expect(lines.slice(0, before).map(({ line }) => line.seq)).toEqual(Array.from({ length: before }, (_, i) => i + 1))
    for (const { sum, line } of lines) expect(sum).toBe(sumOf(JSON.stringify(line)))
    expect(lines.some(({ line }) => line.stream === 'old/1' && 'entry' in line)).toBe(false)
    expect(lines.filter(({ line }) => line.stream === 'kept' && 'entry' in line)).toHaveLength(11)
    expect(lines.flatMap(({ line }) => [...(line.inserts ?? []), ...(line.puts ?? [])].map(([key]) => key))).toEqual(
      expect.arrayContaining(['left/1', 'left/2']),
    )
  })

  it('leaves files alone in which there is none of it', async () => {
    const path = freshPath()
    await filled(path)
    const backend = await opened(path)
    for (let i = 0; i < 3; i++) await backend.commit(append('other', i, 'x'.repeat(5000)))
    await backend.commit(append('old/1', 10)) // before it and behind it
    await backend.commit(append('kept', 11))
    await backend.close()
    const others = journalFiles(path).find((file) => !/"(old|kept)/.test(readFileSync(file, 'utf8')))!
    const before = statSync(others)
    await forgotten(path)
    expect(statSync(others)).toMatchObject({ ino: before.ino, mtimeMs: before.mtimeMs })
  })

  it('goes once its file is full, also if that is long after', async () => {
    const path = freshPath()
    const backend = await opened(path, { segmentBytes: 100_000 })
    await backend.commit(write('old', 0, { entry: 'x'.repeat(50_000), puts: [['k', 'x'.repeat(10_000)]] }))
    await backend.commit(append('kept', 0))
    await backend.commit(write('old', 1, { forget: true, deletes: ['k'] }))
    await backend.close()
    expect(bytesIn(join(path, 'journal'))).toBeGreaterThan(60_000)
    const again = await opened(path, { segmentBytes: 1 })
    await again.commit(append('kept', 1))
    await again.close()
    expect(bytesIn(join(path, 'journal'))).toBeLessThan(2000)
  })

  it('goes later when it cannot go now, which is told', async () => {
    const path = freshPath()
    await filled(path)
    const [first] = journalFiles(path)
    const size = statSync(first!).size
    mkdirSync(`${first}.tmp`) // nothing can be written there
    const errors: unknown[] = []
    const state = await forgotten(path, { onError: (error) => errors.push(error) })
    expect(errors.length).toBeGreaterThan(0)
    for (const error of errors) expect(error).toMatchObject({ code: 'unavailable' })
    expect(statSync(first!).size).toBe(size)
    rmdirSync(`${first}.tmp`)
    expect(await stateOf(path)).toEqual(state)
    expect(statSync(first!).size).toBeLessThan(size / 2)
  })

  it('goes also when a crash has left half of a file behind', async () => {
    const path = freshPath()
    await filled(path)
    for (const file of journalFiles(path)) writeFileSync(`${file}.tmp`, readFileSync(file).subarray(0, 300))
    const state = await forgotten(path)
    expect(await stateOf(path)).toEqual(state)
    expect(linesIn(path).some(({ line }) => line.stream === 'old/1' && 'entry' in line)).toBe(false)
  })

  it('is not what decides whether the newest entry may be forgotten, also when the store was opened again', async () => {
    const path = freshPath()
    await filled(path)
    await forgotten(path)
    for (const withCheckpoint of [true, false]) {
      if (!withCheckpoint) rmSync(join(path, 'checkpoint'))
      const backend = await opened(path)
      await backend.set('own', 'later')
      await backend.acquire('old/1', holder, 1000)
      const { revision } = await backend.head('kept')
      await expect(backend.commit(write('kept', revision, { forget: true }))).rejects.toMatchObject({ code: 'refused' })
      await backend.close()
    }
  })
})

describe('whoever reads a file store while it forgets', () => {
  it('sees all of what stays, in its order', async () => {
    const path = freshPath()
    await filled(path)
    const backend = await opened(path)
    const look = async (entries: AsyncIterable<Entry>) => {
      const { revision } = await backend.head('kept')
      const seen = (await collect(entries)).filter(({ stream }) => stream === 'kept')
      expect(seen.length).toBeGreaterThanOrEqual(revision)
      expect(seen.map((entry) => entry.revision)).toEqual(seen.map((_, i) => i + 1))
    }
    const change = async (stream: string, from: number) => {
      await forget(backend, stream)
      for (let n = 0; n < 4; n++) await backend.commit(append('kept', from + n, 'x'.repeat(2000)))
    }
    for (const [i, stream] of OLD.entries())
      await Promise.all([change(stream, 11 + 4 * i), look(backend.feed()), look(backend.read('kept'))])
    await backend.close()
  })

  it('goes on with what the stream has since', async () => {
    const path = freshPath()
    const backend = await opened(path)
    for (let i = 0; i < 20; i++) await backend.commit(append('old', i, `${i} ${'x'.repeat(1000)}`))
    await backend.commit(append('kept', 0))
    const walk = backend.read('old')[Symbol.asyncIterator]()
    for (let i = 0; i < 3; i++) expect((await walk.next()).value.body).toMatch(`${i} x`)
    await backend.commit(write('old', 20, { forget: true }))
    for (let i = 0; i < 20; i++) await backend.commit(append('old', i, `new ${i}`))
    const rest = await collect({ [Symbol.asyncIterator]: () => walk })
    const since = rest.filter(({ body }) => String(body).startsWith('new'))
    expect(since.at(-1)).toMatchObject({ revision: 20, body: 'new 19' })
    expect(bodies(await collect(backend.read('old')))).toEqual(Array.from({ length: 20 }, (_, i) => `new ${i}`))
    await backend.close()
  })

  it('comes to the end of a stream that is forgotten under it', async () => {
    const backend = await opened(freshPath())
    for (let round = 0; round < 5; round++) {
      for (let i = 0; i < 20; i++) await backend.commit(append('old', i, 'x'.repeat(1000)))
      await backend.commit(append('kept', round))
      let isOver = false
      const forgetting = backend.commit(write('old', 20, { forget: true })).finally(() => {
        isOver = true
      })
      while (!isOver) {
        const seen = await collect(backend.read('old'))
        expect(seen.map(({ revision }) => revision)).toEqual(seen.map((_, i) => i + 1))
        await nextTurn() // once nothing is left to read, nothing is waited for: the forgetting would never have its turn
      }
      await forgetting
    }
    await backend.close()
  })

  it('finds every line of a file that is rewritten under it', async () => {
    const journal = await openJournal(tempFolder(), 0, 1)
    onTestFinished(() => journal.close())
    await journal.append(Array.from({ length: 50 }, (_, i) => setText('key', JSON.stringify('x'.repeat(1000 + i)))))
    await journal.roll()
    for (let round = 0; round < 50; round++) {
      let isOver = false
      const rewriting = journal
        .rewrite(1, (text) => text.replace(/x+"/, (value) => `${'x'.repeat((value.length * 7) % 2000)}"`))
        .finally(() => {
          isOver = true
        })
      while (!isOver) {
        const read = Promise.all([1, 20, 50].map((from) => journal.page(from)))
        await nextTurn()
        expect((await read).map((lines) => lines.length)).toEqual([50, 31, 1])
      }
      await rewriting
    }
  })

  it('gets a value that took the place of the one it looked for', async () => {
    const values = objects({
      folder: tempFolder(),
      lines: new Map([['k', 1]]),
      fromJournal: async (key, seq) => {
        if (seq === 2) return 'second'
        values.put(key, 2)
        throw new Error('the line does not tell it any more')
      },
      check: async () => {},
      onError: unused,
    })
    expect(await values.get('k')).toBe('second')
  })
})

it('keeps a blob that is put while it is taken away', async () => {
  const clock = manualClock()
  const blobs = blobFiles(tempFolder(), clock)
  const bytes = Buffer.from('wanted')
  const digest = await blobs.put(bytes)
  for (let i = 0; i < 50; i++) {
    await clock.advance(60_000)
    await Promise.all([blobs.forget(digest, 60_000), blobs.put(bytes), blobs.forget(digest, 60_000)])
    expect(await blobs.get(digest)).toBeDefined()
  }
})

/**
 * Streams of ten entries each, in turns, of which `kept` has the last; closed after each turn. Values of `old/1` and `old/2` stay when these are
 * forgotten, and `old/3` has deleted one of `kept`.
 */
async function filled(path: string, afterEach = () => {}): Promise<void> {
  for (let n = 0; n < 10; n++) {
    const backend = await opened(path)
    for (const stream of ['kept', ...OLD]) {
      const text = 'x'.repeat(400)
      const puts = [[`${stream}/k`, { n, text }] as const]
      await backend.commit(write(stream, n, { entry: { n, text }, puts, inserts: [[`${stream}/${n}`, n]] }))
      if (n === 5) await backend.acquire(stream, holder, 1000)
    }
    if (n === 6) await backend.commit(write('old/1', 7, { puts: [['left/1', null]] }))
    if (n === 7) await backend.commit(write('old/3', 8, { deletes: ['kept/3'] }))
    if (n === 8) await backend.set('own', n)
    await backend.close()
    afterEach()
  }
  const backend = await opened(path)
  await backend.commit(write('old/2', 10, { entry: 'last', puts: [['left/2', 'left']] }))
  await backend.close()
  afterEach()
  const last = await opened(path)
  await last.commit(append('kept', 10, 'newest'))
  await last.close()
}

/** What the store has after every stream but `kept` was forgotten, and it was closed. */
async function forgotten(path: string, options: Partial<FileOptions> = {}): Promise<unknown> {
  const backend = await opened(path, options)
  for (const stream of OLD) await forget(backend, stream)
  const state = await everything(backend, STREAMS)
  await backend.close()
  return state
}

async function forget(backend: Backend, stream: string): Promise<void> {
  const { revision } = await backend.head(stream)
  const deletes = ['k', ...Array.from({ length: 10 }, (_, n) => n)].map((name) => `${stream}/${name}`)
  await backend.commit(write(stream, revision, { forget: true, deletes }))
}

async function stateOf(path: string): Promise<unknown> {
  const backend = await opened(path)
  const state = await everything(backend, STREAMS)
  await backend.close()
  return state
}

const journalFiles = (path: string) =>
  readdirSync(join(path, 'journal'))
    .filter((name) => name.endsWith('.jsonl'))
    .sort()
    .map((name) => join(path, 'journal', name))

const linesIn = (path: string) =>
  journalFiles(path).flatMap((file) => {
    const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1)
    return lines.map((line) => JSON.parse(line))
  })

/** Does the line of a checkpoint still stand in the journal? */
function isBelieved(path: string, checkpoint: Buffer): boolean {
  const { seq, sum } = JSON.parse(checkpoint.toString().slice(17))
  return linesIn(path)[seq - 1].sum === sum
}

const bytesIn = (path: string): number =>
  readdirSync(path, { withFileTypes: true, recursive: true })
    .filter((file) => file.isFile())
    .reduce((sum, file) => sum + statSync(join(file.parentPath, file.name)).size, 0)
