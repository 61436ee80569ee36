import { chmodSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { append, collect } from '../contracts/backend/given.ts'
import { type Child, child } from '../support/child.ts'
import { outlivesLostRights } from '../support/lost-rights.ts'
import { own } from '../support/processes.ts'
import { tempFolder } from '../support/temp-folder.ts'
import type { LoadResult } from './load.ts'
import { expectWhole } from './whole.ts'

const PROGRAM = new URL('sqlite-process.ts', import.meta.url)

describe('several processes on one SQLite file', () => {
  let children: Child[] = []
  const start = (...args: string[]) => {
    const started = child(PROGRAM, args)
    children.push(started)
    return started
  }
  const told = async (to: Child, order: string) => {
    to.tell(order)
    return JSON.parse(await to.line())
  }
  afterEach(async () => {
    await Promise.all(children.map((c) => c.kill()))
    children = []
  })

  it('make the store together, and each commit of each is there once and whole', { timeout: 60_000 }, async () => {
    const path = join(tempFolder(), 'new/state.db')
    const names = ['p', 'q', 'r']
    const shared = ['s1', 's2', 's3']
    const streams = [...shared, ...names.map((name) => `${name}/own`)]
    const all = names.map((name) => start(path, name, ...shared, `${name}/own`))
    const opened = await Promise.all(all.map((c) => told(c, 'open')))
    expect(opened).toEqual(all.map(() => ({ done: 'open' })))

    const follower = await sqliteBackend({ path })
    const followed = collect(follower.feed({ follow: true }), names.length * (shared.length + 1) * 100)
    const results: LoadResult[] = await Promise.all(all.map((c) => told(c, 'load')))
    const landed = results.flatMap((result) => result.landed)
    expect(landed).toHaveLength(names.length * (shared.length + 1) * 100)
    expect(Object.keys(Object.assign({}, ...results.map((result) => result.failures)))).toEqual(['revision_conflict'])

    await expectWhole(follower, streams, landed)
    const seen = await followed
    expect(seen).toEqual(await collect(follower.feed()))
    await follower.close()
  })

  it('lose nothing acknowledged when one of them is killed', { timeout: 60_000 }, async () => {
    const path = join(tempFolder(), 'state.db')
    const [doomed, survivor] = [start(path, 'p', 's1', 's2'), start(path, 'q', 's1', 's2')] as const
    await Promise.all([told(doomed, 'open'), told(survivor, 'open')])
    const backend = await sqliteBackend({ path })
    doomed.tell('load')
    await collect(backend.feed({ follow: true }), 20)
    await doomed.kill()
    const { landed } = (await told(survivor, 'load')) as LoadResult
    const entries = await collect(backend.feed())
    const ofTheDead = entries.map((entry) => (entry.body as { id: string }).id).filter((id) => id.startsWith('p-'))
    expect(ofTheDead.length).toBeGreaterThanOrEqual(20)
    await expectWhole(backend, ['s1', 's2'], [...landed, ...ofTheDead])
    await backend.close()
  })

  it('are refused where they may not write, with nothing changed', async () => {
    const folder = tempFolder()
    const existing = join(folder, 'theirs/state.db')
    const backend = await sqliteBackend({ path: existing })
    await backend.commit(append('g', 0))
    await backend.close()
    chmodSync(existing, 0o444)
    mkdirSync(join(folder, 'empty'))
    for (const closed of ['theirs', 'empty']) chmodSync(join(folder, closed), 0o555)
    for (const way of [folder, dirname(folder)]) chmodSync(way, 0o755) // the stranger comes as far as these

    const readOnly = join(folder, 'open/state.db')
    await (await sqliteBackend({ path: readOnly })).close()
    chmodSync(readOnly, 0o444)
    chmodSync(dirname(readOnly), 0o777)

    const left = join(folder, 'left/state.db')
    await (await sqliteBackend({ path: left })).close()
    for (const file of ['-wal', '-shm']) rmSync(`${left}${file}`, { force: true }) // as when its last process has ended
    chmodSync(dirname(left), 0o555)

    for (const path of [
      existing,
      readOnly,
      left,
      join(folder, 'empty/state.db'),
      join(folder, 'empty/more/state.db'),
    ]) {
      const stranger = start(path, 'nobody')
      await told(stranger, 'nobody')
      expect(await told(stranger, 'open')).toEqual({ code: 'refused', message: expect.stringContaining(path) })
    }
    chmodSync(join(folder, 'left'), 0o700)
    const seeker = start(left, 'nobody') // who cannot look must not say that there is none
    await told(seeker, 'nobody')
    expect(await told(seeker, 'find')).toEqual({ code: 'refused', message: expect.stringContaining('may not be read') })
    for (const open of ['theirs', 'empty', 'left']) chmodSync(join(folder, open), 0o755)
    chmodSync(existing, 0o644)
    const again = await sqliteBackend({ path: existing })
    expect(await collect(again.feed())).toHaveLength(1)
    await again.close()
  })

  it('leave nothing beside a file that they may only read, and write to it once they may', async () => {
    const folder = tempFolder()
    const shared = join(folder, 'shared')
    const path = join(shared, 'state.db')
    await (await sqliteBackend({ path })).close()
    for (const file of ['-wal', '-shm']) rmSync(`${path}${file}`, { force: true }) // as when its last process has ended
    for (const way of [folder, dirname(folder)]) chmodSync(way, 0o755)
    chmodSync(shared, 0o777)
    chmodSync(path, 0o444)
    const stranger = start(path, 'nobody')
    await told(stranger, 'nobody')
    expect(await told(stranger, 'open')).toEqual({
      code: 'refused',
      message: expect.stringContaining('give it the right'),
    })
    expect(readdirSync(shared)).toEqual(['state.db'])
    chmodSync(path, 0o666)
    await told(stranger, 'open')
    expect(await told(stranger, 'commit')).toEqual({ revision: 1 })
  })

  it('wait, once they have it open, until they may write there again', async () => {
    await outlivesLostRights((shared) => {
      const stranger = start(join(shared, 'state.db'), 'nobody')
      return (order) => told(stranger, order)
    })
  })
})

describe('an SQLite store whose file may not grow', () => {
  it.each([
    ['open', 'here'],
    ['openAside', 'on another thread'],
  ])(
    'says where to look when a commit could not be written, and keeps and shows only the others (%s: %s)',
    async (open) => {
      const limited = 'ulimit -f 2000 && exec "$0" "$@"' // as a quota does, which SQLite tells from a full disk
      const tsx = createRequire(import.meta.url).resolve('tsx')
      const path = join(tempFolder(), 'state.db')
      const writer = own('sh', ['-c', limited, process.execPath, '--import', tsx, fileURLToPath(PROGRAM), path, 'p'])
      const lines = createInterface({ input: writer.process.stdout! })[Symbol.asyncIterator]()
      writer.process.stdin?.write(`${open}\nuntilRefused\n`)
      await lines.next()
      const { landed, seen, refusal, message, ...counted } = JSON.parse((await lines.next()).value as string)
      await writer.stop('SIGKILL')

      expect(refusal).toBe('outcome_unknown')
      expect(message).toContain(path)
      expect(message).toContain('quotas')
      expect(counted).toEqual({ entries: landed, values: 3 * landed })
      expect(seen).toBeGreaterThan(0)
      expect(seen).toBeLessThanOrEqual(landed)
      const again = await sqliteBackend({ path })
      await again.commit(append('s', landed))
      await again.close()
    },
  )
})

describe('an SQLite store on a full disk', () => {
  it.for([
    ['open', 'here'],
    ['openAside', 'on another thread'],
  ])(
    'refuses the commit that does not fit, keeps all others, and goes on when there is room (%s: %s)',
    async ([open], context) => {
      const folder = tempFolder()
      const mounted = 'mount -t tmpfs -o size=3m tmpfs "$0" && exec "$@"'
      const tsx = createRequire(import.meta.url).resolve('tsx')
      const program = [process.execPath, '--import', tsx, fileURLToPath(PROGRAM), join(folder, 'state.db'), 'p']
      const disk = own('unshare', ['--map-root-user', '--mount', 'sh', '-c', mounted, folder, ...program])
      const lines = createInterface({ input: disk.process.stdout! })[Symbol.asyncIterator]()
      disk.process.stdin?.write(`${open}\nfill\n`)
      if ((await lines.next()).done) return context.skip(`no small disk can be made here: ${disk.lastWords}`)
      const { whenFull, afterwards } = JSON.parse((await lines.next()).value as string)
      await disk.stop('SIGKILL')

      expect(whenFull.refusal).toBe('unavailable')
      expect(whenFull.message).toContain('disk is full')
      expect(whenFull.landed).toBeGreaterThan(5)
      expect(whenFull).toMatchObject({ entries: whenFull.landed, values: 3 * whenFull.landed })
      expect(afterwards).toEqual({
        entries: whenFull.landed + 5,
        values: 3 * (whenFull.landed + 5),
        landed: whenFull.landed + 5,
      })
    },
  )
})
