import { existsSync } from 'node:fs'
import { readdir, readFile, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../protocol/clock.ts'
import { Refused } from '../protocol/errors.ts'
import { isObject } from '../protocol/json.ts'
import { makeFolder } from '../protocol/make-folder.ts'
import { isMissing, unlessMissing } from '../protocol/missing-file.ts'
import type { Holder } from './backend.ts'
import { replace } from './file-sync.ts'
import { holderIsGone, thisHolder } from './holder.ts'

/** A folder that no other process may write meanwhile. */
export interface FolderLock {
  /** Throws Refused if the folder was removed, or this process stood still for so long that another one has taken it over. */
  check(): Promise<void>
  release(): Promise<void>
}

interface Claim {
  readonly path: string
  readonly holder: Holder
  readonly owns: boolean
}

/** How often an owner shows that it lives; only those who cannot see its process look at it. */
const BEAT_MS = 2000
/** An owner nobody can see is taken for gone when it has not shown itself for so long. */
const SILENCE_MS = 10_000
const LOOK_MS = 500

/** Claims of this thread. What another thread of the process claims is known from its silence: it may have ended alone. */
const ours = new Set<string>()

/**
 * Everyone who wants the folder first puts a claim of his own beside the others, then looks: of two that come at once at least one sees the other.
 * Only claims of the gone are removed, and no name is used twice, so nobody can remove a claim that has come since he looked.
 */
export async function lockFolder(folder: string, clock: Clock): Promise<FolderLock> {
  const locks = join(folder, 'locks')
  const holder = thisHolder(clock.uuid())
  const path = join(locks, `${holder.id}.json`)
  const claim = (owns: boolean) => replace(path, `${JSON.stringify({ holder, owns })}\n`)
  let shown = performance.now()
  let lost: unknown
  const show = async () => {
    await stat(path) // a claim that was removed must not come back
    await utimes(path, clock.now() / 1000, clock.now() / 1000)
    shown = performance.now()
  }
  const lock: FolderLock = {
    async check() {
      if (lost === undefined && performance.now() - shown < SILENCE_MS / 2 && existsSync(path)) return
      try {
        await show()
        lost = undefined
      } catch (error) {
        if (!isMissing(error)) throw error
        throw new Refused(
          `${folder} was removed, or taken over by another process`,
          'open it again once that one is done',
        )
      }
    },
    async release() {
      clearInterval(beat)
      ours.delete(holder.id)
      await rm(path, { force: true })
    },
  }

  makeFolder(locks)
  ours.add(holder.id)
  let beat: NodeJS.Timeout | undefined
  try {
    await claim(false)
    // From now on: of two that come at once and cannot see each other, each would take the other for gone.
    beat = setInterval(() => {
      show().catch((error) => {
        lost = error
      })
    }, BEAT_MS)
    beat.unref()
    await outlast(folder, locks, holder, clock)
    await lock.check()
    await claim(true)
  } catch (error) {
    await lock.release()
    throw error
  }
  return lock
}

/** Returns when nobody else claims the folder; throws Refused when somebody does who lives. */
async function outlast(folder: string, locks: string, self: Holder, clock: Clock): Promise<void> {
  for (;;) {
    const others = (await claimsIn(locks)).filter((claim) => claim.holder.id !== self.id)
    let contenders = 0
    for (const other of others) {
      if (await isGone(other, self, clock)) await rm(other.path, { force: true })
      // Of two that came at once the first by name stays; the other one sees him too, and goes.
      else if (other.owns || other.holder.id < self.id) throw taken(folder, other.holder, self)
      else contenders++
    }
    if (contenders === 0) return
    await clock.sleep(LOOK_MS)
  }
}

const taken = (folder: string, { pid, boot }: Holder, self: Holder): Refused =>
  pid === self.pid && boot === self.boot
    ? new Refused(`${folder} is open in this process already`, 'use that store, or close it first')
    : new Refused(
        `${folder} is open in another process, ${pid}`,
        'end that one first, or choose sqlite, redis or postgres, which several processes may share',
      )

async function claimsIn(locks: string): Promise<Claim[]> {
  const claims = (await readdir(locks))
    .filter((name) => name.endsWith('.json'))
    .map((name) => claimIn(join(locks, name)))
  return (await Promise.all(claims)).filter((claim) => claim !== undefined)
}

async function claimIn(path: string): Promise<Claim | undefined> {
  const text = await readFile(path, 'utf8').catch(unlessMissing)
  if (text === undefined) return undefined
  try {
    const claim = JSON.parse(text)
    if (!isObject(claim) || !isObject(claim.holder)) throw new SyntaxError('it names no holder')
    return { path, ...(claim as unknown as Omit<Claim, 'path'>) }
  } catch {
    throw new Refused(`${path} is not a lock`, 'delete it if no process uses the folder')
  }
}

/** Known from the process where it can be seen, else from its silence. */
async function isGone(claim: Claim, self: Holder, clock: Clock): Promise<boolean> {
  const { id, boot, pid } = claim.holder
  if (self.boot !== '' && boot === self.boot) {
    if (holderIsGone(claim.holder)) return true
    if (pid !== self.pid || ours.has(id)) return false
  }
  const before = await shownAt(claim.path)
  for (let waited = 0; waited < SILENCE_MS; waited += LOOK_MS) {
    const now = await shownAt(claim.path)
    if (now === undefined) return true
    if (now !== before) return false
    await clock.sleep(LOOK_MS)
  }
  return true
}

const shownAt = async (path: string): Promise<number | undefined> => (await stat(path).catch(unlessMissing))?.mtimeMs
