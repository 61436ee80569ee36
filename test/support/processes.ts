import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'

/** A process in its own group that ends when we end, however we end. */
export interface Owned {
  readonly pid: number
  readonly process: ChildProcess
  /** Settles with the way it ended. */
  readonly exited: Promise<string>
  readonly running: boolean
  /** The end of what it wrote to stderr and stdout. */
  readonly lastWords: string
  /** To the process and to all its children. */
  signal(signal: NodeJS.Signals): void
  /** Sends the signal and waits until it is gone; after 5 s it is killed. */
  stop(signal?: NodeJS.Signals): Promise<void>
}

export interface OwnOptions {
  readonly cwd?: string
  readonly env?: NodeJS.ProcessEnv
  readonly user?: { readonly uid: number; readonly gid: number } | undefined
  /** What ends it in good order. */
  readonly stopSignal?: NodeJS.Signals
}

export function own(command: string, args: readonly string[], options: OwnOptions = {}): Owned {
  const { stopSignal = 'SIGTERM', user, ...rest } = options
  const process = spawn(command, args, { ...rest, ...user, detached: true, stdio: ['pipe', 'pipe', 'pipe'] })
  const pid = process.pid
  let running = pid !== undefined
  let lastWords = ''
  const hear = (chunk: Buffer) => {
    lastWords = (lastWords + chunk.toString()).slice(-4000)
  }
  process.stdin.on('error', () => undefined) // it ended before it had read everything; how, `exited` tells
  process.stdout.on('data', hear)
  process.stderr.on('data', hear)
  const exited = new Promise<string>((resolve) => {
    process.once('error', (error) => resolve(error.message))
    process.once('exit', (code, signal) => {
      running = false
      if (pid !== undefined) reaper().tell('disown', pid)
      resolve(signal ?? `code ${code}`)
    })
  })
  if (pid === undefined) throw new Error(`${command} cannot be started`)
  reaper().tell('own', pid, stopSignal)

  return {
    pid,
    process,
    exited,
    get running() {
      return running
    },
    get lastWords() {
      return lastWords.trim()
    },
    signal(signal) {
      for (const member of family(pid)) sendSignal(member, signal)
    },
    async stop(signal = stopSignal) {
      if (!running) return
      this.signal('SIGCONT') // a stopped process would not hear the rest
      sendSignal(pid, signal)
      const impatience = setTimeout(() => this.signal('SIGKILL'), 5000)
      await exited
      clearTimeout(impatience)
    },
  }
}

/** A new folder under the system's temporary one, removed when this process ends, however it ends. */
export function ownFolder(name: string): string {
  const path = mkdtempSync(join(tmpdir(), `mplp-${name}-`))
  reaper().tell('folder', path)
  return path
}

/** Ends everything this process owns and waits for it. */
export async function releaseAll(): Promise<void> {
  await started?.finish()
  started = undefined
}

interface Reaper {
  tell(...line: readonly (string | number)[]): void
  finish(): Promise<void>
}
let started: Reaper | undefined
const reaper = (): Reaper => {
  started ??= startReaper()
  return started
}

function startReaper(): Reaper {
  const script = fileURLToPath(new URL('reaper.mjs', import.meta.url))
  // It outlives us, and with our stderr it would hold the run open until the last file is removed.
  const child = spawn(process.execPath, [script], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
  const gone = new Promise<void>((resolve, reject) =>
    child.once('exit', (code) => {
      if (code === 0) resolve()
      else reject(new Error('not every process was ended, or not every folder removed'))
    }),
  )
  gone.catch(() => undefined) // told to who waits for it
  child.unref()
  const pipe = child.stdin as Writable & { unref?(): void }
  pipe.unref?.()
  return {
    tell: (...line) => void pipe.write(`${JSON.stringify(line)}\n`),
    finish() {
      child.ref()
      pipe.end()
      return gone
    },
  }
}

/** A process and its descendants. Postgres puts each of its children into a session of its own, so the group is not enough. */
function family(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
    return [pid, ...children.flatMap(family)]
  } catch {
    return [pid] // gone, or no /proc on this system
  }
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
