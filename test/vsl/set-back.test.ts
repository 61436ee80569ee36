import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { type Clock, manualClock } from '../../src/protocol/clock.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { fileBackend } from '../../src/vsl/file.ts'
import { liftedBackend } from '../../src/vsl/lifted.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { farHolder } from '../contracts/backend/holders.ts'
import { tempFolder } from '../support/temp-folder.ts'

const MAKERS: Readonly<Record<string, (clock: Clock) => Backend | Promise<Backend>>> = {
  memory: (clock) => memoryBackend({ clock }),
  file: (clock) => fileBackend({ path: join(tempFolder(), 'state'), clock }),
  sqlite: (clock) => sqliteBackend({ path: join(tempFolder(), 'state.db'), clock }),
  lifted: (clock) => liftedBackend(new Map(), { clock }),
}

it.each(Object.entries(MAKERS))(
  '%s: lets no lease last longer than its time because the clock was set back, and takes none from who renews it',
  async (_, open) => {
    const clock = manualClock()
    let setBack = 0
    const store = await open({ ...clock, now: () => clock.now() - setBack })
    onTestFinished(() => store.close())
    await store.acquire('dead', farHolder('far'), 10_000)
    const lease = await store.acquire('alive', farHolder('far'), 10_000)
    setBack = 3_600_000
    const tokens = async () => {
      const asked = await Promise.all(
        ['dead', 'alive'].map((stream) => store.acquire(stream, farHolder('near'), 10_000)),
      )
      return asked.map((acquired) => acquired?.token)
    }
    expect(await tokens()).toEqual([undefined, undefined])
    await clock.advance(9_000)
    expect(await store.renew(lease!)).toBe(true)
    expect(await tokens()).toEqual([undefined, undefined])
    await clock.advance(1_000)
    expect(await tokens()).toEqual([expect.any(Number), undefined])
  },
)
