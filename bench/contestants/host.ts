import { appendFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Contestant, Open, Place, Work } from './contestant.ts'

// A contestant's own process, so that memory, warm-up and event loops do not mix. Arguments: the contestant's module, its place, and for a life that
// is to be cut short or taken up, the ledger. Reads a task per line, answers each with a line that begins with MARK.

/** One measured piece of work, as the parent asks for it. */
export type Task =
  | { readonly kind: 'chain' | 'fan' | 'waiting' | 'resume'; readonly size: number }
  /** `count` chains of `size`, so many at a time. */
  | { readonly kind: 'plans'; readonly size: number; readonly count: number; readonly atOnce: number }
  | { readonly kind: 'close' }

export interface Measured {
  readonly wallMs: number
  readonly cpuMs: number
  /** Of each plan, in milliseconds. */
  readonly latencies?: readonly number[]
  /** What stays after the work and a full collection; only where the process runs with --expose-gc. */
  readonly heapBytes?: number
  readonly residentBytes?: number
}

export interface Ledger {
  readonly path: string
  /** The step in the middle of which this process kills itself. */
  readonly dieAt?: number
}

/** What peers print goes by without it. */
export const MARK = '\u0001'

if (process.argv[1] === import.meta.filename) await main()

async function main(): Promise<void> {
  const [module, place, ledger] = process.argv.slice(2) as [string, string, string | undefined]
  const { open } = (await import(module)) as { open: Open }
  const contestant = await open(JSON.parse(place) as Place, workOf(ledger))
  say({ ready: true, version: contestant.version, durability: contestant.durability })
  for await (const line of createInterface({ input: process.stdin })) {
    const task = JSON.parse(line) as Task
    if (task.kind === 'close') break
    try {
      say(await measured(contestant, task))
    } catch (error) {
      say({ failed: error instanceof Error ? error.message : String(error) })
    }
  }
  await contestant.close()
  process.exit(0) // some keep timers or sockets for ever
}

/** A step writes down that it ran, and when: after a kill the file is all there is to compare. */
function workOf(ledger: string | undefined): Work {
  if (ledger === undefined) return () => undefined
  const { path, dieAt } = JSON.parse(ledger) as Ledger
  let count = 0
  return (step) => {
    appendFileSync(path, `${JSON.stringify({ step, at: machineMs() })}\n`)
    if (++count === dieAt) process.kill(process.pid, 'SIGKILL')
  }
}

async function measured(contestant: Contestant, task: Exclude<Task, { kind: 'close' }>): Promise<Measured> {
  const before = kept()
  const [began, used] = [performance.now(), process.cpuUsage()]
  const latencies = task.kind === 'plans' ? await pool(contestant, task) : undefined
  if (task.kind !== 'plans') await contestant[task.kind]!(task.size)
  const wallMs = performance.now() - began
  const { user, system } = process.cpuUsage(used)
  const after = kept()
  return {
    wallMs,
    cpuMs: (user + system) / 1000,
    ...(latencies && { latencies }),
    ...(before && after && { heapBytes: after.heap - before.heap, residentBytes: after.resident - before.resident }),
  }
}

async function pool(contestant: Contestant, { size, count, atOnce }: Extract<Task, { kind: 'plans' }>) {
  const latencies: number[] = []
  let left = count
  const worker = async () => {
    while (left-- > 0) {
      const began = performance.now()
      await contestant.chain!(size)
      latencies.push(performance.now() - began)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  return latencies
}

function kept(): { heap: number; resident: number } | undefined {
  if (globalThis.gc === undefined) return undefined
  globalThis.gc()
  const { heapUsed, external, rss } = process.memoryUsage()
  return { heap: heapUsed + external, resident: rss }
}

function say(message: object): void {
  process.stdout.write(`${MARK}${JSON.stringify(message)}\n`)
}

/** The same clock in every process of this machine. */
function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
