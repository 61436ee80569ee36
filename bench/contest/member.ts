import { createInterface } from 'node:readline'
import { type Owned, own } from '../../test/support/processes.ts'
import type { Place } from '../contestants/contestant.ts'
import { type Ledger, MARK, type Measured, type Task } from '../contestants/host.ts'
import { built, moduleOf, root } from './build.ts'
import { PATIENCE_MS } from './settings.ts'

/** A contestant in its own process, seen from the parent. It ends when we end. */
export interface Member {
  readonly version: string
  readonly durability: string
  /** Throws when the work fails, takes too long, or the process is gone. */
  run(task: Task): Promise<Measured>
  /** Settles with the way the process ended. */
  readonly exited: Promise<string>
  close(): Promise<void>
}

export interface MemberOptions {
  readonly ledger?: Ledger
  /** Has it tell what memory stays. */
  readonly collect?: boolean
  readonly flags?: readonly string[]
  readonly patienceMs?: number
}

type Answer = Measured & { readonly failed?: string; readonly version: string; readonly durability: string }

export async function member(name: string, place: Place, options: MemberOptions = {}): Promise<Member> {
  const { ledger, collect, flags = [], patienceMs = PATIENCE_MS } = options
  const args = [built('bench/contestants/host.ts'), moduleOf(name), JSON.stringify(place)]
  if (ledger) args.push(JSON.stringify(ledger))
  const process = own(globalThis.process.execPath, [...(collect ? ['--expose-gc'] : []), ...flags, ...args], {
    cwd: place.folder,
    env: { ...globalThis.process.env, NODE_OPTIONS: '', NODE_ENV: 'production', ...QUIET }, // bare Node: no loader of ours
  })
  const answers = answersOf(process, patienceMs)
  const { version, durability } = await answers.next()
  return {
    version,
    durability,
    exited: process.exited,
    async run(task) {
      process.process.stdin!.write(`${JSON.stringify(task)}\n`)
      const answer = await answers.next()
      if (answer.failed !== undefined) throw new Error(answer.failed)
      return answer
    },
    async close() {
      process.process.stdin!.write(`${JSON.stringify({ kind: 'close' } satisfies Task)}\n`)
      const impatience = setTimeout(() => process.signal('SIGKILL'), 10_000)
      await process.exited
      clearTimeout(impatience)
    },
  }
}

/** Peers that would report to their makers, or trace into the void. */
const QUIET = { MASTRA_TELEMETRY_DISABLED: '1', LANGCHAIN_TRACING_V2: 'false', DO_NOT_TRACK: '1' }

function answersOf(process: Owned, patienceMs: number): { next(): Promise<Answer> } {
  const lines = createInterface({ input: process.process.stdout! })
  const waiting: ((answer: Answer | Error) => void)[] = []
  const early: Answer[] = []
  lines.on('line', (line) => {
    const at = line.indexOf(MARK) // a peer may have left a line unfinished
    if (at < 0) return
    const answer = JSON.parse(line.slice(at + MARK.length)) as Answer
    const next = waiting.shift()
    if (next) next(answer)
    else early.push(answer)
  })
  process.exited.then((end) => {
    for (const next of waiting.splice(0)) next(new Error(`ended (${end}): ${complaint(process.lastWords)}`))
  })
  return {
    async next() {
      const there = early.shift()
      if (there) return there
      if (!process.running) throw new Error(`ended: ${complaint(process.lastWords)}`)
      let impatience: NodeJS.Timeout | undefined
      const answer = await new Promise<Answer | Error>((resolve) => {
        waiting.push(resolve)
        impatience = setTimeout(() => {
          resolve(new Error(`took longer than ${patienceMs / 1000} s`))
          process.signal('SIGKILL')
        }, patienceMs)
      })
      clearTimeout(impatience)
      if (answer instanceof Error) throw answer
      return answer
    },
  }
}

/** The line that says what went wrong, among all that a dying process prints. */
function complaint(words: string): string {
  const lines = words.split('\n').filter((line) => line.trim() !== '')
  const line = lines.find((one) => /error/i.test(one)) ?? lines.at(-1) ?? 'without a word'
  return line.trim().replaceAll(root, '.').slice(0, 200)
}
