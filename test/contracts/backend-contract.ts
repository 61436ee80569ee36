import { afterEach, beforeEach, describe } from 'vitest'
import type { Backend } from '../../src/vsl/backend.ts'
import { badInput } from './backend/bad-input.ts'
import { blobs } from './backend/blobs.ts'
import { closing } from './backend/closing.ts'
import { commits } from './backend/commits.ts'
import { forgetting } from './backend/forgetting.ts'
import type { Given } from './backend/given.ts'
import { journals } from './backend/journals.ts'
import { leases } from './backend/leases.ts'
import { racing } from './backend/racing.ts'
import { reopening } from './backend/reopening.ts'
import { scans } from './backend/scans.ts'
import { values } from './backend/values.ts'

/** A store of its own for one test. */
export interface FreshStore {
  /** Opens it; the first time it is empty. Called again, it opens the same store: after a close, or beside the first where `processes` is `many`. */
  open(): Promise<Backend>
  /** Lets this much of the store's time pass. Without it the suite waits for real, as it must where a server's clock counts. */
  elapse?(ms: number): Promise<void>
  /** Removes what is left. Called when every opened backend is closed. */
  remove?(): Promise<void>
}

export interface ContractOptions {
  /** What was written is there again after closing and opening, although `durable` does not promise it. */
  readonly kept?: boolean
  /** How many keys the long scans meet; 100,000 unless told. */
  readonly scanKeys?: number
  /** For each test; the long scans get three times as much. */
  readonly timeoutMs?: number
}

/**
 * What every Backend promises, as tests. A member joins with one line in a vitest file and adds only what is special to it:
 * `backendContract('mine', () => { const path = freshPath(); return { open: () => myBackend({ path }) } })`
 */
export function backendContract(
  name: string,
  fresh: () => FreshStore | Promise<FreshStore>,
  options: ContractOptions = {},
): void {
  describe(`vsl/${name} keeps the backend contract`, { timeout: options.timeoutMs ?? 60_000 }, () => {
    let store: FreshStore
    let opened: Backend[] = []
    const open = async () => {
      const backend = await store.open()
      opened.push(backend)
      return backend
    }
    const given: Given = {
      get backend() {
        return opened[0]!
      },
      async reopen() {
        await Promise.all(opened.map((backend) => backend.close()))
        opened = []
        return open()
      },
      beside: open,
      elapse: (ms) => (store.elapse ?? waited)(ms),
      kept: () => options.kept === true || opened[0]!.traits.durable,
      scanKeys: options.scanKeys ?? 100_000,
      longMs: 3 * (options.timeoutMs ?? 60_000),
    }
    beforeEach(async () => {
      store = await fresh()
      await open()
    })
    afterEach(async () => {
      await Promise.all(opened.map((backend) => backend.close()))
      opened = []
      await store.remove?.()
    })

    for (const part of [
      values,
      commits,
      racing,
      scans,
      journals,
      leases,
      blobs,
      forgetting,
      reopening,
      closing,
      badInput,
    ])
      part(given)
  })
}

const waited = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
