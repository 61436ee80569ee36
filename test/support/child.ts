import { EventEmitter, once } from 'node:events'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { own } from './processes.ts'

/** A TypeScript program in a process of its own, spoken to in lines. It ends when we end. */
export interface Child {
  readonly pid: number
  /** Everything it has printed so far. */
  readonly lines: readonly string[]
  /** The first line since the last one returned that contains or matches this; rejects if the child ends without it. */
  line(match?: string | RegExp): Promise<string>
  /** Writes a line to its stdin. */
  tell(line: string): void
  /** Has nothing more to write to it. */
  hush(): void
  /** SIGKILL unless told otherwise; waits until it is gone. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /** SIGSTOP and SIGCONT. */
  pause(): void
  resume(): void
  /** Settles with the way it ended: `code 0`, `SIGKILL`, … */
  readonly exited: Promise<string>
}

/** `script` is a path or a file URL; `env` is added to ours. */
export function child(script: string | URL, args: readonly string[] = [], env: NodeJS.ProcessEnv = {}): Child {
  const path = script instanceof URL ? fileURLToPath(script) : script
  const owned = own(process.execPath, ['--import', TSX, path, ...args], { env: { ...process.env, ...env } })
  const lines: string[] = []
  let read = 0
  let ended: string | undefined
  const news = new EventEmitter().setMaxListeners(0)
  const output = createInterface({ input: owned.process.stdout as NodeJS.ReadableStream })
  output.on('line', (line) => {
    lines.push(line)
    news.emit('more')
  })
  // Its last lines may still be in the pipe when it has ended.
  const over = Promise.all([owned.exited, new Promise((resolve) => output.once('close', resolve))])
  over.then(([end]) => {
    ended = end
    news.emit('more')
  })

  return {
    pid: owned.pid,
    lines,
    exited: over.then(([end]) => end),
    async line(match = '') {
      for (;;) {
        for (; read < lines.length; read++) {
          const line = lines[read] as string
          if (typeof match === 'string' ? line.includes(match) : match.test(line)) return lines[read++] as string
        }
        if (ended !== undefined)
          throw new Error(`the child ended (${ended}) without a line like ${match}: ${owned.lastWords}`)
        await once(news, 'more')
      }
    },
    hush: () => void owned.process.stdin?.end(),
    tell: (line) => void owned.process.stdin?.write(`${line}\n`),
    async kill(signal = 'SIGKILL') {
      owned.process.kill(signal) // it alone: what it started must notice for itself
      await over
    },
    pause: () => void owned.process.kill('SIGSTOP'),
    resume: () => void owned.process.kill('SIGCONT'),
  }
}

const TSX = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
