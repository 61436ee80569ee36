import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import Database from 'libsql'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Clock, manualClock, systemClock } from '../../src/protocol/clock.ts'
import { Corrupt, InvalidInput, Refused, Unavailable } from '../../src/protocol/errors.ts'
import { digestOf } from '../../src/protocol/json.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { sqliteError } from '../../src/vsl/sqlite-errors.ts'
import { append, collect, everything, write } from '../contracts/backend/given.ts'
import { farHolder } from '../contracts/backend/holders.ts'
import { backendContract } from '../contracts/backend-contract.ts'
import { tempFolder } from '../support/temp-folder.ts'

const MIB = 1024 * 1024
const freshPath = () => join(tempFolder(), 'state.db')

for (const [name, blockingMs] of [
  ['sqlite', 60_000],
  ['sqlite that commits on another thread', 0],
] as const)
  backendContract(name, () => {
    const path = freshPath()
    let passed = 0
    const clock = { ...systemClock, now: () => systemClock.now() + passed }
    return {
      open: () => sqliteBackend({ path, blockingMs, clock }),
      async elapse(ms) {
        passed += ms
      },
    }
  })

describe('an SQLite store', () => {
  it('makes the folders on its way', async () => {
    const path = join(tempFolder(), 'a/b/c/state.db')
    const backend = await sqliteBackend({ path })
    await backend.commit(append('g', 0))
    await backend.close()
    expect(existsSync(path)).toBe(true)
  })

  it('keeps the folder .mplp that it makes out of git, which would put it away with a stash, and no other', async () => {
    const project = tempFolder()
    const git = (...args: string[]) => execFileSync('git', args, { cwd: project, encoding: 'utf8' })
    git('init', '-q')
    for (const folder of ['.mplp', 'data']) {
      const store = await sqliteBackend({ path: join(project, folder, 'state.db') })
      await store.close()
    }
    expect(git('status', '--porcelain')).toBe('?? data/\n')
    writeFileSync(join(project, '.mplp/.gitignore'), '# ours\n')
    await (await sqliteBackend({ path: join(project, '.mplp/state.db') })).close()
    expect(readFileSync(join(project, '.mplp/.gitignore'), 'utf8')).toBe('# ours\n')
  })

  it('is all in its one file once it is closed', async () => {
    const path = freshPath()
    const backend = await sqliteBackend({ path })
    for (let i = 0; i < 10; i++) await backend.commit(write('g', i, { entry: i, puts: [[`k/${i}`, i]] }))
    const before = await everything(backend, ['g'])
    await backend.close()
    const copy = freshPath()
    copyFileSync(path, copy)
    const copied = await sqliteBackend({ path: copy })
    expect(await everything(copied, ['g'])).toEqual(before)
    await copied.close()
  })

  it('acknowledges nothing more once its file was taken away or another one put in its place', async () => {
    const path = freshPath()
    const backend = await sqliteBackend({ path })
    await backend.commit(append('g', 0))
    renameSync(path, `${path}.away`)
    for (const put of [() => undefined, () => writeFileSync(path, 'another')]) {
      put()
      await expect(backend.commit(append('g', 1))).rejects.toThrow(Refused)
      await expect(backend.set('k', 1)).rejects.toThrow(Refused)
      await expect(backend.putBlob(Buffer.from('b'))).rejects.toThrow(Refused)
    }
    renameSync(`${path}.away`, path)
    await backend.commit(append('g', 1))
    await backend.close()
  })

  it.each(['feed', 'read'] as const)('tells who follows (%s) that its file was taken away', async (way) => {
    const path = freshPath()
    const backend = await sqliteBackend({ path })
    onTestFinished(() => backend.close())
    await backend.commit(append('g', 0))
    const from = { follow: true }
    const follower = (way === 'feed' ? backend.feed(from) : backend.read('g', from))[Symbol.asyncIterator]()
    await follower.next()
    const next = follower.next()
    renameSync(path, `${path}.away`)
    await expect(next).rejects.toThrow(Refused)
  })

  it.each([
    ['nothing', ''],
    [
      'as much, and more',
      `INSERT INTO journal VALUES (2, 1, 2, '"other"'), (3, 1, 3, '"other"'), (4, 1, 4, '"other"'), (5, 1, 5, '"other"')`,
    ],
  ])('tells who follows that it was set back, and that %s has come since', async (_, since) => {
    const path = freshPath()
    const backend = await sqliteBackend({ path })
    onTestFinished(() => backend.close())
    for (let i = 0; i < 4; i++) await backend.commit(append('g', i, 'ours'))
    const follower = backend.feed({ follow: true })[Symbol.asyncIterator]()
    for (let i = 0; i < 4; i++) await follower.next()
    const next = follower.next()
    const other = new Database(path) // as .restore of the sqlite3 shell does it, which others need not stop for
    other.exec(`BEGIN; DELETE FROM journal WHERE seq > 1; ${since}; COMMIT`)
    other.close()
    await expect(next).rejects.toThrow('ahead of this store')
  })

  it('says how much room its log takes while somebody else reads without an end, and gives it back afterwards', async () => {
    const path = freshPath()
    const backend = await sqliteBackend({ path, synchronous: 'OFF' })
    onTestFinished(() => backend.close())
    let puts = 0
    const put = () => backend.set('large', String(puts++ % 10).repeat(4 * MIB)) // what is there already is not written again
    const log = () => statSync(`${path}-wal`).size
    await put()
    const other = new Database(path)
    other.exec('BEGIN')
    other.prepare('SELECT count(*) FROM own').get()
    for (let i = 0; i < 10; i++) await put()
    expect(log()).toBeGreaterThan(40 * MIB)
    expect((await backend.facts?.())?.bytes).toBeGreaterThan(log())
    other.exec('ROLLBACK')
    other.close()
    for (let i = 0; i < 2; i++) await put() // the first empties the log, the second begins it anew
    expect(log()).toBeLessThan(32 * MIB)
  })

  it('is refused where only its log lies, which SQLite would throw away', async () => {
    const [path, moved] = [freshPath(), freshPath()]
    const backend = await sqliteBackend({ path })
    await backend.commit(append('g', 0))
    copyFileSync(`${path}-wal`, `${moved}-wal`) // as a crash leaves it
    const log = readFileSync(`${moved}-wal`)
    const refused = async (create: boolean) => {
      await expect(sqliteBackend({ path: moved, create })).rejects.toThrow(Refused)
      expect(readFileSync(`${moved}-wal`)).toEqual(log)
    }
    for (const create of [true, false]) await refused(create)
    writeFileSync(moved, '')
    for (const create of [true, false]) await refused(create)
    copyFileSync(path, moved)
    await backend.close()
    const whole = await sqliteBackend({ path: moved })
    expect(await collect(whole.feed())).toHaveLength(1)
    await whole.close()
  })

  it('can be closed while somebody else writes', async () => {
    const path = freshPath()
    const backend = await sqliteBackend({ path })
    await backend.commit(append('g', 0))
    const other = new Database(path)
    other.exec('BEGIN IMMEDIATE')
    await backend.close()
    other.exec('ROLLBACK')
    other.close()
    const again = await sqliteBackend({ path })
    expect(await collect(again.feed())).toHaveLength(1)
    await again.close()
  })

  it.each([
    ['OFF', false],
    ['NORMAL', false],
    ['FULL', true],
    ['EXTRA', true],
  ] as const)('with synchronous %s says that durable is %s', async (synchronous, durable) => {
    const backend = await sqliteBackend({ path: freshPath(), synchronous })
    expect(backend.traits.durable).toBe(durable)
    await backend.close()
  })

  it('takes a path as it stands, even one that looks like a URL', async () => {
    const folder = tempFolder()
    const path = join(folder, 'file:x?mode=memory')
    const backend = await sqliteBackend({ path })
    await backend.close()
    expect(existsSync(path)).toBe(true)
  })

  it.each([
    ['path', 'type', { path: '' }],
    ['path', 'type', { path: ':memory:' }],
    ['path', 'type', { path: 'x\0.db' }],
    ['path', 'type', { path: 7 as unknown as string }],
    ['path', 'required', {} as { path: string }],
    ['synchronous', 'enum', { path: 'x.db', synchronous: 'SOMETIMES' as 'FULL' }],
    ['timeoutMs', 'type', { path: 'x.db', timeoutMs: -1 }],
    ['timeoutMs', 'type', { path: 'x.db', timeoutMs: Number.NaN }],
    ['blockingMs', 'type', { path: 'x.db', blockingMs: -1 }],
  ])('refuses options whose %s does not fit (%s): %j', async (path, rule, options) => {
    const error = await sqliteBackend(options).catch((e) => e)
    expect(error).toBeInstanceOf(InvalidInput)
    expect(error.problems).toEqual([expect.objectContaining({ path, rule })])
  })

  it('reads rows larger than a page may hold in their place', async () => {
    const backend = await sqliteBackend({ path: freshPath() })
    const large = 'x'.repeat(100_000)
    const texts = ['small', large, 'small', 'small', large, large, 'small']
    for (const [i, text] of texts.entries())
      await backend.commit(write('g', i, { entry: text, puts: [[`k/${i}`, text]] }))
    expect((await collect(backend.scan('k/'))).map(([, text]) => text)).toEqual(texts)
    expect((await collect(backend.scan('k/', { limit: 3 }))).map(([, text]) => text)).toEqual(texts.slice(0, 3))
    expect((await collect(backend.read('g'))).map((entry) => entry.body)).toEqual(texts)
    expect((await collect(backend.feed())).map((entry) => entry.body)).toEqual(texts)
    await backend.close()
  })

  it('looks for the commits of others only while somebody follows', async () => {
    const clock = manualClock()
    const backend = await sqliteBackend({ path: freshPath(), clock })
    await backend.commit(append('g', 0))
    expect(clock.sleeping).toBe(0)
    const stop = new AbortController()
    const followed = collect(backend.feed({ follow: true, signal: stop.signal }))
    await expect.poll(() => clock.sleeping).toBe(1)
    stop.abort()
    await followed
    await clock.advance(50)
    expect(clock.sleeping).toBe(0)
    await backend.close()
  })

  it.each([
    ['commits', (backend: Backend, i: number) => backend.commit(append('g', i))],
    ['sets', (backend: Backend, i: number) => backend.set('k', i)],
    ['gets', (backend: Backend) => backend.get('k')],
  ])('leaves the rest of the process its turn in a loop of %s', async (_, call) => {
    const backend = await sqliteBackend({ path: freshPath() })
    let over = false
    let turns = 0
    const rest = (async () => {
      for (; !over; turns++) await nextTurn()
    })()
    for (let i = 0; i < 320; i++) await call(backend, i)
    over = true
    await rest
    expect(turns).toBeGreaterThanOrEqual(20)
    await backend.close()
  })

  it.each([
    [0, true],
    [Number.MIN_VALUE, true], // every commit takes longer
    [60_000, false],
  ])(
    'with a blockingMs of %d leaves the process its turn while a commit is under way: %s',
    async (blockingMs, leaves) => {
      const backend = await sqliteBackend({ path: freshPath(), blockingMs })
      onTestFinished(() => backend.close())
      let turned = false
      process.nextTick(() => {
        turned = true // nothing is left to do that does not wait for the outside
      })
      await backend.set('key', 1)
      expect(turned).toBe(leaves)
      expect(await backend.get('key')).toBe(1)
    },
  )

  it('is closed after the commits that were asked for before', async () => {
    const path = freshPath()
    const backend = await sqliteBackend({ path, blockingMs: 0 })
    const keys = ['first', 'second', 'third']
    const sets = keys.map((key) => backend.set(key, key))
    await Promise.all([backend.close(), backend.close()])
    await Promise.all(sets)
    const again = await sqliteBackend({ path })
    onTestFinished(() => again.close())
    expect(await Promise.all(keys.map((key) => again.get(key)))).toEqual(keys)
  })

  it('wakes its own followers at once, without a look around', async () => {
    const backend = await sqliteBackend({ path: freshPath(), clock: manualClock() })
    const [first] = await Promise.all([
      collect(backend.read('g', { follow: true }), 1),
      backend.commit(append('g', 0, 'mine')),
    ])
    expect(first.map((entry) => entry.body)).toEqual(['mine'])
    await backend.close()
  })
})

describe('an SQLite store beside a process that holds the lock', () => {
  const locked = (path: string) => {
    const other = new Database(path)
    other.exec('BEGIN IMMEDIATE')
    return other
  }

  it('waits without blocking its own process, and then lands', async () => {
    const path = freshPath()
    const backend = await sqliteBackend({ path })
    const other = locked(path)
    let landed = false
    const commit = backend.commit(append('g', 0)).then(() => {
      landed = true
    })
    for (let turns = 0; turns < 10; turns++) {
      await nextTurn()
      expect(await backend.head('g')).toEqual({ revision: 0, token: 0 })
    }
    expect(landed).toBe(false)
    other.exec('ROLLBACK')
    await commit
    expect(await backend.head('g')).toEqual({ revision: 1, token: 0 })
    other.close()
    await backend.close()
  })

  it('is Unavailable when its patience ends, with nothing written, and usable afterwards', async () => {
    const path = freshPath()
    const backend = await sqliteBackend({ path, timeoutMs: 50 })
    const before = await everything(backend, ['g'])
    const other = locked(path)
    const calls = [
      backend.commit(write('g', 0, { entry: 1, puts: [['k', 1]] })),
      backend.set('own', 1),
      backend.acquire('g', { id: 'h', boot: '', pid: 1, started: '' }, 1000),
      backend.putBlob(new Uint8Array(3)),
    ]
    for (const result of await Promise.allSettled(calls))
      expect(result).toMatchObject({ status: 'rejected', reason: expect.any(Unavailable) })
    other.exec('ROLLBACK')
    expect(await everything(backend, ['g'])).toEqual(before)
    await backend.commit(write('g', 0, { entry: 1, puts: [['k', 1]] }))
    expect(await collect(backend.scan(''))).toEqual([['k', 1]])
    other.close()
    await backend.close()
  })

  it.each([
    ['back', -3_600_000],
    ['forward', 3_600_000],
  ])('is waited for no longer and no shorter when the clock is set %s', async (_, set) => {
    const path = freshPath()
    let offset = 0
    const slept: number[] = []
    const clock: Clock = {
      ...systemClock,
      now: () => Date.now() + offset,
      async sleep(ms) {
        if (slept.length > 100) throw new Error('it waits for ever')
        offset = set
        slept.push(ms)
      },
    }
    const backend = await sqliteBackend({ path, timeoutMs: 300, clock })
    const other = locked(path)
    await expect(backend.set('own', 1)).rejects.toBeInstanceOf(Unavailable)
    expect(slept.length).toBeGreaterThan(3)
    expect(slept.reduce((sum, ms) => sum + ms)).toBeLessThan(400)
    other.close()
    await backend.close()
  })

  it('is waited for no longer by many at once, for whom one tries: each try keeps the thread from all', async () => {
    const path = freshPath()
    let sleeps = 0
    const clock: Clock = {
      ...systemClock,
      sleep(ms, signal) {
        sleeps++
        return systemClock.sleep(ms, signal)
      },
    }
    const backend = await sqliteBackend({ path, timeoutMs: 100, clock })
    const other = locked(path)
    const calls = Array.from({ length: 40 }, (_, i) => backend.set(`own ${i}`, i))
    for (const { status } of await Promise.allSettled(calls)) expect(status).toBe('rejected')
    expect(sleeps).toBeLessThan(7) // a try takes 20 ms, and one more finds that they have waited as long as they may
    other.close()
    await backend.close()
  })

  it('is not opened, or made, while the lock lasts', async () => {
    const path = freshPath()
    const other = new Database(path)
    other.exec('CREATE TABLE x (y); DROP TABLE x; BEGIN EXCLUSIVE')
    await expect(sqliteBackend({ path, timeoutMs: 50 })).rejects.toBeInstanceOf(Unavailable)
    other.exec('ROLLBACK')
    const backend = await sqliteBackend({ path, timeoutMs: 50 })
    await backend.commit(append('g', 0))
    other.close()
    await backend.close()
  })
})

describe('an SQLite store of layout 1', () => {
  it('is brought up to date when it is opened: journal, positions and leases stay what they were', async () => {
    const path = freshPath()
    const one = farHolder('one')
    const old = new Database(path)
    old.exec(`
      CREATE TABLE leases (stream TEXT PRIMARY KEY, token INTEGER NOT NULL, holder TEXT, until INTEGER) WITHOUT ROWID;
      CREATE TABLE journal (
        seq INTEGER PRIMARY KEY, stream TEXT NOT NULL, revision INTEGER NOT NULL, body TEXT NOT NULL, UNIQUE (stream, revision)
      );
      CREATE TABLE "values" (key TEXT PRIMARY KEY, value TEXT NOT NULL);
      CREATE TABLE own (key TEXT PRIMARY KEY, value TEXT NOT NULL);
      CREATE TABLE blobs (digest TEXT PRIMARY KEY, bytes BLOB NOT NULL);
      INSERT INTO journal VALUES (1, 'z', 1, '"z1"'), (2, 'a', 1, '"a1"'), (5, 'z', 2, '"z2"');
      INSERT INTO leases VALUES ('a', 3, '${JSON.stringify(one)}', 9000000000000), ('z', 2, NULL, NULL), ('never-written', 1, NULL, NULL);
      INSERT INTO "values" VALUES ('k', '1');
      INSERT INTO blobs VALUES ('${digestOf('old')}', CAST('old' AS BLOB)), ('${digestOf('put again')}', CAST('put again' AS BLOB));
      PRAGMA application_id = 0x6d706c70;
      PRAGMA user_version = 1`)
    old.close()

    const backend = await sqliteBackend({ path })
    expect(await backend.facts?.()).toEqual({ layout: 3, bytes: expect.any(Number) })
    expect(await collect(backend.feed())).toMatchObject([
      { stream: 'z', revision: 1, body: 'z1' },
      { stream: 'a', revision: 1, body: 'a1' },
      { stream: 'z', revision: 2, body: 'z2' },
    ])
    expect((await collect(backend.feed())).map(({ position }) => Number(position))).toEqual([1, 2, 5])
    expect(await backend.head('a')).toEqual({ revision: 1, token: 3 })
    expect(await backend.head('z')).toEqual({ revision: 2, token: 2 })
    expect(await backend.head('never-written')).toEqual({ revision: 0, token: 1 })
    expect(await backend.acquire('a', { ...one, id: 'two' }, 1000)).toBeUndefined()
    expect((await backend.acquire('never-written', one, 1000))!.token).toBeGreaterThan(1)
    await backend.commit(write('z', 2, { entry: 'z3' }))
    expect(await collect(backend.read('z', { after: 1 }))).toMatchObject([{ body: 'z2' }, { body: 'z3' }])
    expect(await collect(backend.scan(''))).toEqual([['k', 1]])
    const again = await backend.putBlob(new TextEncoder().encode('put again'))
    expect(await backend.forgetBlobs([digestOf('old'), again], 60_000)).toEqual([digestOf('old')]) // nobody knows when it was put
    expect(await collect(backend.blobs())).toEqual([again])
    await backend.close()
  })
})

describe('an SQLite store whose driver cannot be loaded', () => {
  it.each([
    ['MODULE_NOT_FOUND', 'Cannot find module @libsql/linux-x64-gnu'], // installed with --omit=optional, or on another system
    ['ERR_DLOPEN_DISABLED', 'Cannot load native addon because loading addons is disabled.'],
    ['ERR_DLOPEN_FAILED', 'invalid ELF header'],
  ])('is refused with what helps: %s', (code, message) => {
    const cause = Object.assign(new Error(message), { code })
    const refused = sqliteError('state.db', cause)
    expect(refused).toBeInstanceOf(Refused)
    expect(refused).toMatchObject({ remedy: expect.stringContaining('install the packages'), cause })
  })
})

describe('what is not an SQLite store', () => {
  it.each([
    ['text', 'not a database, although it is long enough to be mistaken for one. '.repeat(100)],
    ['a few bytes', 'abc'],
  ])('is refused and left as it is: %s', async (_, text) => {
    const path = freshPath()
    writeFileSync(path, text)
    const error = await sqliteBackend({ path }).catch((e) => e)
    expect(error).toBeInstanceOf(Refused)
    expect(error.message).toContain(path)
    expect(error.remedy).toContain('another file')
    expect(readFileSync(path, 'utf8')).toBe(text)
  })

  it('is refused and left as it is: a database of something else', async () => {
    const path = freshPath()
    const other = new Database(path)
    other.exec('CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)')
    other.close()
    const bytes = readFileSync(path)
    await expect(sqliteBackend({ path })).rejects.toBeInstanceOf(Refused)
    expect(readFileSync(path).equals(bytes)).toBe(true)
  })

  it('writes nothing more once a newer version has brought its file to another layout', async () => {
    const path = freshPath()
    const backend = await sqliteBackend({ path })
    await backend.commit(append('g', 0))
    const newer = new Database(path)
    newer.exec('ALTER TABLE "values" ADD COLUMN more TEXT; PRAGMA user_version = 7')
    const before = await everything(backend, ['g'])
    const writes = [
      () => backend.commit(write('g', 1, { entry: 2, puts: [['k', 1]] })),
      () => backend.set('k', 1),
      () => backend.putBlob(Buffer.from('x')),
      () => backend.acquire('g', farHolder('a'), 1000),
    ]
    for (const work of writes) await expect(work()).rejects.toThrow(Refused)
    await expect(backend.facts!()).rejects.toThrow('end this process')
    expect(await everything(backend, ['g'])).toEqual(before)
    newer.close()
    await backend.close()
  })

  it('is refused: a store of a newer version', async () => {
    const path = freshPath()
    await (await sqliteBackend({ path })).close()
    const newer = new Database(path)
    newer.exec('PRAGMA user_version = 7')
    newer.close()
    const error = await sqliteBackend({ path }).catch((e) => e)
    expect(error).toBeInstanceOf(Refused)
    expect(error.message).toContain('schema 7')
  })

  it('is refused: a folder, or a path below a file', async () => {
    const folder = tempFolder()
    await expect(sqliteBackend({ path: folder })).rejects.toBeInstanceOf(Refused)
    writeFileSync(join(folder, 'file'), '')
    await expect(sqliteBackend({ path: join(folder, 'file/state.db') })).rejects.toBeInstanceOf(Refused)
  })

  it.each([
    ['a path', (folder: string) => join(folder, ...Array.from({ length: 5 }, () => 'x'.repeat(100)), 'state.db')],
    ['the name of a folder', (folder: string) => join(folder, 'a', 'x'.repeat(256), 'state.db')],
    ['the name of the file', (folder: string) => join(folder, 'a', 'x'.repeat(248))],
  ])('is refused as too long, whatever this process may, and leaves no folder: %s', async (_, pathIn) => {
    const folder = tempFolder()
    const path = pathIn(folder)
    const opened = sqliteBackend({ path })
    await expect(opened).rejects.toThrow(Refused)
    await expect(opened).rejects.toThrow(`the path ${path} is too long for SQLite`)
    expect(readdirSync(folder)).toEqual([])
  })

  it('takes a path that is as long as it may be', async () => {
    const folder = join(tempFolder(), 'x'.repeat(100), 'x'.repeat(100), 'x'.repeat(100), 'x'.repeat(50))
    const path = join(folder, 'y'.repeat(503 - Buffer.byteLength(folder)))
    const store = await sqliteBackend({ path })
    onTestFinished(() => store.close())
    await store.set('a', 1)
    expect(await store.get('a')).toBe(1)
    await expect(sqliteBackend({ path: `${path}y` })).rejects.toThrow('too long for SQLite')
  })

  it('is Corrupt, by its name, where a text is no JSON', async () => {
    const path = freshPath()
    const backend = await sqliteBackend({ path })
    await backend.commit(write('g', 0, { entry: 1, puts: [['k', 1]] }))
    await backend.set('own', 1)
    const other = new Database(path)
    other.exec(`UPDATE "values" SET value = '{'; UPDATE own SET value = ''; UPDATE journal SET body = '{"a":'`)
    other.close()
    for (const [read, name] of [
      [() => backend.getMany(['k']), 'the value of k'],
      [() => collect(backend.scan('')), 'the value of k'],
      [() => backend.get('own'), 'the value of own'],
      [() => collect(backend.read('g')), 'entry 1 of g'],
      [() => collect(backend.feed()), 'entry 1 of g'],
    ] as const) {
      const error = await read().catch((e: unknown) => e)
      expect(error).toBeInstanceOf(Corrupt)
      expect((error as Corrupt).message).toContain(name)
    }
    await backend.close()
  })

  it('is Corrupt where its pages are damaged', async () => {
    const path = freshPath()
    const backend = await sqliteBackend({ path })
    for (let i = 0; i < 50; i++) await backend.commit(write('g', i, { entry: i, puts: [[`k/${i}`, 'x'.repeat(2000)]] }))
    await backend.close()
    const folded = new Database(path)
    folded.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    folded.close()
    const bytes = readFileSync(path)
    bytes.fill(0xa5, bytes.readUInt16BE(16)) // all but the first page
    writeFileSync(path, bytes)
    const damaged = await sqliteBackend({ path })
    await expect(collect(damaged.scan(''))).rejects.toBeInstanceOf(Corrupt)
    await expect(damaged.commit(append('g', 50))).rejects.toBeInstanceOf(Corrupt)
    await damaged.close()
  })
})
