import { createInterface } from 'node:readline'
import { MplpError } from '../../src/protocol/errors.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { fileBackend } from '../../src/vsl/file.ts'
import { append, collect, write } from '../contracts/backend/given.ts'

// A process on a folder, which does what it is told line by line and answers each order with a line of JSON.
const [path] = process.argv.slice(2) as [string]
let backend: Backend

const orders: Readonly<Record<string, () => Promise<unknown>>> = {
  async open() {
    backend = await fileBackend({ path, onError: () => {} })
  },
  async commit() {
    const { revision } = await backend.head('g')
    await backend.commit(append('g', revision))
    return { revision: revision + 1 }
  },
  /** Becomes somebody who may write only where everybody may. */
  async nobody() {
    if (process.getuid?.() !== 0) return // permissions already count
    process.setgid?.(65534)
    process.setuid?.(65534)
  },
  /** Commits until there is no room, then what still fits. */
  async fill() {
    let landed = 0
    const commit = async (size: number) => {
      await backend.commit(write('s', landed, { entry: { landed }, puts: [[`k/${landed}`, 'x'.repeat(size)]] }))
      landed++
    }
    const refusal = await (async () => {
      for (;;) await commit(10_000)
    })().catch((error) => error)
    const whenFull = landed
    for (let i = 0; i < 3; i++) await commit(1)
    const entries = (await collect(backend.read('s'))).length
    return { code: refusal.code, message: refusal.message, whenFull, landed, entries }
  },
  close: () => backend.close(),
}

for await (const order of createInterface({ input: process.stdin })) {
  const answer = await orders[order]?.().catch((error) =>
    error instanceof MplpError ? { code: error.code, message: error.message } : { code: String(error) },
  )
  process.stdout.write(`${JSON.stringify(answer ?? { done: order })}\n`)
}
