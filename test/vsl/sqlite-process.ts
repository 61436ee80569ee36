import { rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { MplpError } from '../../src/protocol/errors.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { collect, write } from '../contracts/backend/given.ts'
import { commitAll } from './load.ts'

// A process on a store, which does what it is told line by line and answers each order with a line of JSON.
const [path, name, ...streams] = process.argv.slice(2) as [string, string, ...string[]]
let backend: Backend

const orders: Readonly<Record<string, () => Promise<unknown>>> = {
  async open() {
    backend = await sqliteBackend({ path, timeoutMs: 20_000 })
  },
  /** With commits on another thread. */
  async openAside() {
    backend = await sqliteBackend({ path, timeoutMs: 20_000, blockingMs: 0 })
  },
  /** Opens it only if it is there. */
  async find() {
    backend = await sqliteBackend({ path, create: false })
  },
  load: () => commitAll(backend, { name, streams, commits: 100 }),
  /** Becomes somebody who may write only where everybody may. */
  async nobody() {
    await import('libsql')
    if (process.getuid?.() !== 0) return // permissions already count
    process.setgid?.(65534)
    process.setuid?.(65534)
  },
  /** Fills the disk until a commit is refused, makes room and goes on. */
  async fill() {
    const ballast = join(dirname(path), 'ballast')
    writeFileSync(ballast, Buffer.alloc(1_000_000, 1))
    const whenFull = await untilRefused()
    rmSync(ballast)
    for (let i = 0; i < 5; i++) await commit()
    await backend.close()
    await orders.open?.()
    return { whenFull, afterwards: { ...(await counted()), landed: revision } }
  },
  untilRefused: () => untilRefused(),
  async commit() {
    await commit()
    return { revision }
  },
  async close() {
    await backend.close()
  },
}

let revision = 0
async function commit(): Promise<void> {
  const puts = ['a', 'b', 'c'].map((part) => [`s/${part}/${revision}`, 'x'.repeat(10_000)] as const)
  await backend.commit(write('s', revision, { entry: { revision }, puts }))
  revision++
}

async function untilRefused() {
  let [seen, over] = [0, false]
  const looking = (async () => {
    for (; !over; await nextTurn()) seen = Math.max(seen, (await backend.head('s')).revision)
  })()
  const refusal = await (async () => {
    for (; ; await nextTurn()) await commit() // or nobody would look before the end
  })().catch((error) => error)
  over = true
  await looking
  return { ...(await counted()), landed: revision, seen, refusal: refusal.code, message: refusal.message }
}

const counted = async () => ({
  entries: (await collect(backend.read('s'))).length,
  values: (await collect(backend.scan('s/'))).length,
})

for await (const order of createInterface({ input: process.stdin })) {
  const answer = await orders[order]?.().catch((error) =>
    error instanceof MplpError ? { code: error.code, message: error.message } : { code: String(error) },
  )
  process.stdout.write(`${JSON.stringify(answer ?? { done: order })}\n`)
}
