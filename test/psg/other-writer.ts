import { createInterface } from 'node:readline'
import { manualClock } from '../../src/protocol/clock.ts'
import { RuleViolation } from '../../src/protocol/errors.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { type Call, localWriter, type Reply, type Room, type Writer } from './writers.ts'

// A writer for somebody in another process, who asks a line at a time and is answered in one.
let writer: Writer | undefined
for await (const line of createInterface({ input: process.stdin })) {
  const call = JSON.parse(line) as Call
  console.log(JSON.stringify(await answered(call)))
}

async function answered({ n, method, args }: Call): Promise<Reply> {
  try {
    if (method === 'open') {
      const [path, context, seed, room] = args as [string, string, number, Room]
      const open = () => sqliteBackend({ path, synchronous: 'OFF', timeoutMs: 30_000 })
      writer = await localWriter(open, context, { clock: manualClock({ seed }), ...room })
      return { n, value: null }
    }
    const asked = writer![method] as (...given: readonly unknown[]) => Promise<unknown>
    return { n, value: (await asked(...args)) ?? null }
  } catch (error) {
    if (error instanceof RuleViolation) return { n, refused: error.violations }
    return { n, error: String((error as Error).stack) }
  }
}
