import { EventEmitter } from 'node:events'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { watchFolder } from '../../src/drift/watch.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { Refused } from '../../src/protocol/errors.ts'
import { tempFolder } from '../support/temp-folder.ts'

afterEach(() => {
  vi.restoreAllMocks()
  syncBuiltinESMExports()
})

/** From now on the system watches these folders only. */
function limitTo(folders: readonly string[], code: string): void {
  const watch = fs.watch
  vi.spyOn(fs, 'watch').mockImplementation(((path: string, ...rest: [never]) => {
    if (folders.includes(path)) return watch(path, ...rest)
    throw Object.assign(new Error(`${code}: the limit is reached, watch '${path}'`), { code, path })
  }) as typeof fs.watch)
  syncBuiltinESMExports()
}

describe('a system that watches no more', () => {
  it.each([
    ['ENOSPC', 'raise fs.inotify.max_user_watches, or scan'],
    ['EMFILE', 'raise fs.inotify.max_user_instances and'],
  ])('is told of once, with how many folders that leaves and what to do: %s', async (code, remedy) => {
    const root = tempFolder()
    for (const name of ['a', 'b', 'b/c']) fs.mkdirSync(join(root, name))
    limitTo([root], code)
    const clock = manualClock()
    const errors: unknown[] = []
    const onError = (error: unknown) => void errors.push(error)
    const watching = await watchFolder(root, { clock, settleMs: 100, isIgnored: () => false, onSettled() {}, onError })
    onTestFinished(() => watching.close())
    expect(errors).toEqual([expect.any(Refused)])
    expect(String(errors[0])).toContain(`3 folders in ${root} cannot be watched`)
    expect(String(errors[0])).toContain(remedy)

    fs.mkdirSync(join(root, 'd'))
    await expect.poll(() => clock.advance(200).then(() => errors)).toHaveLength(2)
    expect(String(errors[1])).toContain('4 folders')
  })
})

describe('a folder', () => {
  /** Everything counts as quiet as soon as it has happened. */
  function impatient() {
    let now = 0
    return { ...manualClock(), now: () => (now += 1_000_000), sleep: async () => undefined }
  }
  async function watching(root: string, onSettled: (paths: readonly string[]) => void) {
    const options = { clock: impatient(), settleMs: 100, isIgnored: () => false, onSettled, onError() {} }
    const watched = await watchFolder(root, options)
    onTestFinished(() => watched.close())
  }

  it('that comes is told of once it is watched: what happens to it before that is for the look that follows', async () => {
    const [root, elsewhere] = [tempFolder(), tempFolder()]
    fs.mkdirSync(join(elsewhere, 'new/deep'), { recursive: true })
    const log: string[] = []
    const watch = fs.watch
    vi.spyOn(fs, 'watch').mockImplementation(((path: string, ...rest: [never]) => {
      log.push(`watched ${path.slice(root.length + 1)}`)
      return watch(path, ...rest)
    }) as typeof fs.watch)
    syncBuiltinESMExports()
    await watching(root, (paths) => void log.push(...paths.map((path) => `told ${path}`)))
    fs.renameSync(join(elsewhere, 'new'), join(root, 'new'))
    await expect.poll(() => log).toContain('told new')
    expect(log.slice(0, log.indexOf('told new'))).toEqual(expect.arrayContaining(['watched new', 'watched new/deep']))
  })

  it('that is moved away is watched no more, nor are those in it', async () => {
    const [root, elsewhere] = [tempFolder(), tempFolder()]
    fs.mkdirSync(join(root, 'old/deep'), { recursive: true })
    const open = new Set<string>()
    const watch = fs.watch
    vi.spyOn(fs, 'watch').mockImplementation(((path: string, ...rest: [never]) => {
      const handle = watch(path, ...rest)
      open.add(path.slice(root.length + 1))
      return handle.once('close', () => open.delete(path.slice(root.length + 1)))
    }) as typeof fs.watch)
    syncBuiltinESMExports()
    await watching(root, () => undefined)
    expect([...open]).toEqual(['', 'old', 'old/deep'])
    fs.renameSync(join(root, 'old'), join(elsewhere, 'old'))
    await expect.poll(() => [...open]).toEqual([''])
  })

  it('that was put in the place of another is told of with the root: what happened before it was watched is for a scan', async () => {
    const [root, elsewhere] = [tempFolder(), tempFolder()]
    for (const folder of [join(root, 'a'), join(elsewhere, 'b')]) fs.mkdirSync(folder)
    const clock = manualClock()
    const told: string[] = []
    const onSettled = (paths: readonly string[]) => void told.push(...paths)
    const options = { clock, settleMs: 100, isIgnored: () => false, onSettled, onError() {} }
    const watched = await watchFolder(root, options)
    onTestFinished(() => watched.close())
    fs.rmdirSync(join(root, 'a'))
    fs.renameSync(join(elsewhere, 'b'), join(root, 'a'))
    await expect.poll(() => clock.sleeping).toBe(1)
    await expect.poll(() => clock.advance(100).then(() => told)).toContain('a')
    expect(told).toContain('')
  })

  it('that could not be watched when it came is watched once it can be', async () => {
    const root = tempFolder()
    limitTo([root], 'EACCES')
    fs.mkdirSync(join(root, 'shut/deep'), { recursive: true })
    const told: string[] = []
    await watching(root, (paths) => void told.push(...paths))
    vi.restoreAllMocks()
    syncBuiltinESMExports()
    fs.chmodSync(join(root, 'shut'), 0o700)
    await expect.poll(() => told).toContain('shut')
    fs.writeFileSync(join(root, 'shut/deep/a'), '')
    await expect.poll(() => told).toContain('shut/deep/a')
  })
})

describe('waiting until what has happened is told', () => {
  it('ends where something happens all the time', async () => {
    const root = tempFolder()
    const clock = manualClock()
    const told: string[] = []
    const onSettled = (paths: readonly string[]) => void told.push(...paths)
    const watching = await watchFolder(root, { clock, settleMs: 100, isIgnored: () => false, onSettled, onError() {} })
    onTestFinished(() => watching.close())
    fs.writeFileSync(join(root, 'a'), '')
    await expect.poll(() => clock.sleeping).toBe(1)
    let isQuiet = false
    void watching.quiet().then(() => {
      isQuiet = true
    })
    let others = 0
    const another = () => {
      fs.writeFileSync(join(root, `other${others++}`), '')
      return clock.advance(50).then(() => isQuiet)
    }
    await expect.poll(another).toBe(true)
    expect(told).toContain('a')
  })
})

describe('what happens again and again', () => {
  it('is told of after a while, also where it never comes to rest', async () => {
    let stirs: (kind: string, name: string) => void = () => undefined
    const handle = Object.assign(new EventEmitter(), { close() {} })
    vi.spyOn(fs, 'watch').mockImplementation(((_: string, listener: typeof stirs) => {
      stirs = listener
      return handle
    }) as unknown as typeof fs.watch)
    syncBuiltinESMExports()
    const clock = manualClock()
    const told: string[] = []
    const onSettled = (paths: readonly string[]) => void told.push(...paths)
    const options = { clock, settleMs: 100, isIgnored: () => false, onSettled, onError() {} }
    const watching = await watchFolder(tempFolder(), options)
    onTestFinished(() => watching.close())
    const passes = async (ms: number) => {
      for (let passed = 0; passed < ms; passed += 50) {
        stirs('change', 'a')
        await clock.advance(50)
      }
    }
    await passes(1_900)
    expect(told).toEqual([])
    await passes(200)
    await expect.poll(() => told).toEqual(['a'])
  })
})

describe('a clock that is set back', () => {
  it('does not keep from us what has happened', async () => {
    const root = tempFolder()
    const clock = manualClock()
    let setBack = 0
    const told: string[] = []
    const watching = await watchFolder(root, {
      clock: { ...clock, now: () => clock.now() - setBack },
      settleMs: 100,
      isIgnored: () => false,
      onSettled: (paths) => void told.push(...paths),
      onError() {},
    })
    onTestFinished(() => watching.close())
    fs.writeFileSync(join(root, 'a'), '')
    await expect.poll(() => clock.sleeping).toBe(1)
    setBack = 3_600_000
    await expect.poll(() => clock.advance(100).then(() => told)).toContain('a')
  })
})
