import {
  chmodSync,
  copyFileSync,
  existsSync,
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
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { type ManualClock, manualClock } from '../../src/protocol/clock.ts'
import { Refused, Unavailable } from '../../src/protocol/errors.ts'
import type { Holder } from '../../src/vsl/backend.ts'
import { fileBackend } from '../../src/vsl/file.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { append, collect, write } from '../contracts/backend/given.ts'
import { farHolder, goneHolder, needsProcessTable } from '../contracts/backend/holders.ts'
import { type Child, child } from '../support/child.ts'
import { outlivesLostRights } from '../support/lost-rights.ts'
import { own } from '../support/processes.ts'
import { tempFolder } from '../support/temp-folder.ts'

const PROGRAM = new URL('file-process.ts', import.meta.url)
const freshPath = () => join(tempFolder(), 'state')

let children: Child[] = []
const start = (path: string) => {
  const started = child(PROGRAM, [path])
  children.push(started)
  return started
}
const told = async (to: Child, order: string) => {
  to.tell(order)
  return JSON.parse(await to.line())
}
afterEach(async () => {
  vi.useRealTimers()
  await Promise.all(children.map((c) => c.kill()))
  children = []
})

describe('a folder that is open', () => {
  it('is refused to everybody else, in this process and in others, until it is closed', async () => {
    const path = freshPath()
    const backend = await fileBackend({ path })
    await expect(fileBackend({ path })).rejects.toThrow(Refused)
    await expect(fileBackend({ path })).rejects.toThrow('is open in this process already; use that store')
    const other = start(path)
    expect(await told(other, 'open')).toMatchObject({ code: 'refused' })
    await backend.commit(append('g', 0))
    await backend.close()
    expect(await told(other, 'open')).toEqual({ done: 'open' })
    expect(await told(other, 'commit')).toEqual({ revision: 2 })
    await expect(fileBackend({ path })).rejects.toMatchObject({ message: expect.stringContaining(String(other.pid)) })
  })

  it('is written to no more once it was removed or moved away: nobody would find it there', async () => {
    const path = freshPath()
    for (const goes of [() => rmSync(path, { recursive: true }), () => renameSync(path, `${path}-moved`)]) {
      const backend = await fileBackend({ path, onError: () => undefined })
      await backend.commit(append('g', 0))
      goes()
      await expect(backend.commit(append('g', 1))).rejects.toThrow(Refused)
      await backend.close()
      expect(existsSync(path)).toBe(false)
    }
  })

  it('is written to no more once its journal is another file, as git leaves it that has checked out another commit', async () => {
    const path = freshPath()
    const backend = await fileBackend({ path, onError: () => undefined })
    const lease = await backend.acquire('h', thisHolder('me'), 1000)
    await backend.commit(append('g', 0))
    const file = join(path, 'journal/000000000001.jsonl')
    copyFileSync(file, `${file}.tmp`)
    renameSync(`${file}.tmp`, file)
    await expect(backend.commit(append('g', 1))).rejects.toThrow(Refused)
    await expect(backend.set('k', 1)).rejects.toThrow(Refused)
    await expect(backend.delete('k')).rejects.toThrow(Refused)
    await expect(backend.release(lease!)).rejects.toThrow(Refused)
    await backend.close()
    const again = await fileBackend({ path })
    await again.commit(append('g', 1))
    await again.close()
  })

  it('is Unavailable while the file system cannot say whether its journal is the same, and goes on with it afterwards', async () => {
    const path = freshPath()
    const backend = await fileBackend({ path, onError: () => undefined })
    await backend.commit(append('g', 0))
    const folder = join(path, 'journal')
    renameSync(folder, `${folder}.away`)
    symlinkSync('journal', folder)
    await expect(backend.commit(append('g', 1))).rejects.toThrow(Unavailable)
    unlinkSync(folder)
    renameSync(`${folder}.away`, folder)
    await backend.commit(append('g', 1))
    await backend.close()
  })

  it('gets no more files of values either, once it was removed', async () => {
    const path = freshPath()
    let tell: (error: unknown) => void
    const told = new Promise((resolve) => {
      tell = resolve
    })
    const backend = await fileBackend({ path, onError: (error) => tell(error) })
    await backend.commit(write('g', 0, { entry: 1, puts: [['k', 1]] }))
    rmSync(path, { recursive: true })
    expect(await told).toBeInstanceOf(Refused)
    expect(existsSync(path)).toBe(false)
    await backend.close()
    await (await fileBackend({ path })).close()
  })

  it('goes to exactly one of several that come at once', async () => {
    const path = freshPath()
    const contenders = Array.from({ length: 5 }, () => start(path))
    const answers = await Promise.all(contenders.map((c) => told(c, 'open')))
    expect(answers.filter((answer) => answer.done === 'open')).toHaveLength(1)
    expect(answers.filter((answer) => answer.code === 'refused')).toHaveLength(4)
  }, 60_000)

  it('goes to the first by name of two that see each other come', async (context) => {
    needsProcessTable(context)
    const before = await withClaim(parentHolder('0'), false)
    await expect(fileBackend({ path: before, clock: manualClock() })).rejects.toThrow(Refused)
    expect(readdirSync(join(before, 'locks'))).toEqual(['0.json'])

    const after = await withClaim(parentHolder('z'), false)
    const clock = manualClock()
    const opening = fileBackend({ path: after, clock })
    await passed(clock, opening, 2000)
    expect(readdirSync(join(after, 'locks'))).toHaveLength(2)
    rmSync(join(after, 'locks/z.json')) // the other one goes
    await passed(clock, opening, 1000)
    await (await opening).close()
  })

  it('is free at once when the process that had it was killed', async (context) => {
    needsProcessTable(context)
    const path = freshPath()
    const doomed = start(path)
    await told(doomed, 'open')
    await told(doomed, 'commit')
    await doomed.kill()
    const backend = await fileBackend({ path, clock: manualClock() }) // no time passes
    expect(await collect(backend.read('g'))).toHaveLength(1)
    expect(readdirSync(join(path, 'locks'))).toHaveLength(1)
    await backend.close()
    expect(readdirSync(join(path, 'locks'))).toEqual([])
  })

  it.each([
    ['cannot be seen', farHolder],
    ['was another thread of this process, which has ended alone', thisHolder],
  ])('is taken from an owner that %s only after a long silence', async (_, holder) => {
    const path = await withClaim(holder('far'))
    const clock = manualClock()
    let open = false
    const opening = fileBackend({ path, clock }).then((backend) => {
      open = true
      return backend
    })
    for (let s = 0; s < 9; s++) await passed(clock, opening, 1000)
    expect(open).toBe(false)
    for (let s = 0; s < 3; s++) await passed(clock, opening, 1000)
    await (await opening).close()
  })

  it.each([
    ['cannot be seen', farHolder],
    ['is another thread of this process', thisHolder],
  ])('is left to an owner that %s as long as it shows itself', async (_, holder) => {
    const path = await withClaim(holder('far'))
    const clock = manualClock()
    const opening = fileBackend({ path, clock })
    const refused = expect(opening).rejects.toThrow(Refused)
    await passed(clock, opening, 3000)
    utimesSync(join(path, 'locks/far.json'), 1, 1)
    await passed(clock, opening, 1000)
    await refused
    expect(readdirSync(join(path, 'locks'))).toEqual(['far.json'])
  })

  it('is waited for by one that shows itself meanwhile: of two that cannot see each other each would take the other for gone', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const path = await withClaim(farHolder('z'), false)
    const clock = manualClock()
    const opening = fileBackend({ path, clock })
    await passed(clock, opening, 500)
    const claim = readdirSync(join(path, 'locks')).find((name) => name !== 'z.json')
    const shown = () => statSync(join(path, 'locks', claim!)).mtimeMs
    const before = shown()
    vi.advanceTimersByTime(2000)
    await expect.poll(shown).not.toBe(before)
    await passed(clock, opening, 11_000)
    await (await opening).close()
  })

  it('is taken at once from one that is gone, and refused because of what is no claim at all', async (context) => {
    needsProcessTable(context)
    const path = await withClaim(await goneHolder('gone'))
    await (await fileBackend({ path, clock: manualClock() })).close()
    for (const text of ['no JSON', '{}', 'null']) {
      writeFileSync(join(path, 'locks/x.json'), text)
      await expect(fileBackend({ path })).rejects.toThrow(Refused)
    }
  })

  it('is written no more by a process that stood still until another one took it', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
    const path = freshPath()
    const backend = await fileBackend({ path })
    await backend.commit(append('g', 0))
    const [claim] = readdirSync(join(path, 'locks'))
    rmSync(join(path, 'locks', claim!)) // as another process does after a long silence
    vi.advanceTimersByTime(6000)
    const before = readFileSync(join(path, 'journal/000000000001.jsonl'), 'utf8')
    await expect(backend.commit(append('g', 1))).rejects.toThrow(Refused)
    expect(readFileSync(join(path, 'journal/000000000001.jsonl'), 'utf8')).toBe(before)
    await backend.close()
  })
})

describe('a folder without room or rights', () => {
  it('is refused where this process may not write, with nothing changed', async () => {
    const folder = tempFolder()
    const path = join(folder, 'theirs')
    const backend = await fileBackend({ path })
    await backend.commit(append('g', 0))
    await backend.close()
    mkdirSync(join(folder, 'empty'))
    for (const closed of [path, join(folder, 'empty')]) chmodSync(closed, 0o555)
    for (const way of [folder, dirname(folder)]) chmodSync(way, 0o755) // the stranger comes as far as these
    for (const where of [path, join(folder, 'empty'), join(folder, 'empty/more')]) {
      const stranger = start(where)
      await told(stranger, 'nobody')
      expect(await told(stranger, 'open')).toMatchObject({
        code: 'refused',
        message: expect.stringContaining('written'),
      })
      await stranger.kill()
    }
    const again = await fileBackend({ path })
    expect(await collect(again.read('g'))).toHaveLength(1)
    await again.close()
  }, 60_000)

  it('waits, once it is open, until this process may write there again', async () => {
    let stranger: Child | undefined
    await outlivesLostRights((shared) => {
      stranger = start(join(shared, 'store'))
      return (order) => told(stranger!, order)
    })
    await stranger!.kill()
  }, 60_000)

  it('keeps what landed before the disk was full, nothing half, and goes on with what fits', async () => {
    const path = freshPath()
    // The limit on a file's size stands for a full disk: the last write gets in as far as there is room.
    const tsx = createRequire(import.meta.url).resolve('tsx')
    const script = 'ulimit -f 64; exec "$0" --import "$1" "$2" "$3"'
    const limited = own('bash', ['-c', script, process.execPath, tsx, fileURLToPath(PROGRAM), path])
    const answers = createInterface({ input: limited.process.stdout! })[Symbol.asyncIterator]()
    const ask = async (order: string) => {
      limited.process.stdin!.write(`${order}\n`)
      return JSON.parse((await answers.next()).value as string)
    }
    expect(await ask('open')).toEqual({ done: 'open' })
    const result = await ask('fill')
    expect(result).toMatchObject({ code: 'unavailable', message: expect.stringContaining('room') })
    expect(result.whenFull).toBeGreaterThan(3)
    expect(result.landed).toBe(result.whenFull + 3)
    expect(result.entries).toBe(result.landed)
    await limited.stop('SIGKILL')
    const lines = readFileSync(join(path, 'journal/000000000001.jsonl'), 'utf8').split('\n')
    expect(lines.pop()).toBe('') // nothing is left of what did not fit
    expect(lines.map((line) => JSON.parse(line).line.seq)).toEqual(lines.map((_, i) => i + 1))

    const backend = await fileBackend({ path })
    expect(await collect(backend.read('s'))).toHaveLength(result.landed)
    expect(await collect(backend.scan('k/'))).toHaveLength(result.landed)
    await backend.close()
  }, 60_000)
})

/** A holder in another process, which lives. */
function parentHolder(id: string): Holder {
  const [, fields] = readFileSync(`/proc/${process.ppid}/stat`, 'utf8').split(/\) (?!.*\) )/)
  return { ...thisHolder(id), pid: process.ppid, started: fields!.split(' ')[19]! }
}

/** A store in which somebody left his claim. */
async function withClaim(holder: Holder, owns = true): Promise<string> {
  const path = freshPath()
  await (await fileBackend({ path })).close()
  writeFileSync(join(path, `locks/${holder.id}.json`), JSON.stringify({ holder, owns }))
  return path
}

/** Time for an opening that looks at files in between: it must be asleep again, or over, before more time passes. */
async function passed(clock: ManualClock, opening: Promise<unknown>, ms: number): Promise<void> {
  let isOver = false
  const over = () => {
    isOver = true
  }
  opening.then(over, over)
  for (let at = 0; at < ms; at += 500) {
    await expect.poll(() => isOver || clock.sleeping > 0, { interval: 2 }).toBe(true)
    await clock.advance(500)
  }
}
