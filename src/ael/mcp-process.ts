import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { systemClock } from '../protocol/clock.ts'
import { messageOf } from '../protocol/thrown.ts'
import { atMost } from '../protocol/waiting.ts'
import { endOf } from './excerpt.ts'
import type { McpCommand } from './mcp-server.ts'
import { watchman } from './mcp-watchman.ts'
import { inTurn, type McpWire } from './mcp-wire.ts'

const KEPT_STDERR = 2_048
const PATIENCE_MS = 500

/** The server has not been told: it is gone, or does not listen any more. */
class Unheard extends Error {}

/**
 * A server process of our own, spoken to over its stdin and stdout, together with whatever it starts itself.
 * The SDK's own transport signals the process alone, so that what `npx` or a shell started for us would outlive it; this one makes a process
 * group and ends all of it.
 */
export function mcpProcess(server: McpCommand, env: Record<string, string>, maxMessageBytes: number): McpWire {
  let child: ChildProcess | undefined
  let gone: Promise<void> = Promise.resolve()
  let stderr = '' // the end of what it wrote there
  let tooLarge = false
  let isAlive = false
  let isClosing = false

  const signalGroup = (signal: NodeJS.Signals) => {
    if (child?.pid === undefined || !isAlive) return
    try {
      process.kill(-child.pid, signal)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error // nobody is left
    }
  }
  const kill = () => {
    signalGroup('SIGKILL')
    return gone
  }
  const isGoneSoon = () => atMost(PATIENCE_MS, gone, systemClock)

  const wire: McpWire = {
    start() {
      const { command, args = [], cwd } = server
      const started = spawn(command, args, {
        env: { ...env, ...server.env },
        stdio: ['pipe', 'pipe', 'pipe'],
        detached: true,
        ...(cwd === undefined ? {} : { cwd }),
      })
      child = started
      const dismiss = started.pid === undefined ? undefined : watchman(started.pid)
      started.once('exit', () => {
        dismiss?.()
        signalGroup('SIGKILL') // what it had started itself
        isAlive = false
        setTimeout(() => {
          started.stdout.destroy() // whoever escaped from the group may hold these open for ever
          started.stderr.destroy()
        }, PATIENCE_MS).unref()
      })
      gone = new Promise((resolve) => {
        started.once('close', () => {
          resolve()
          wire.onclose?.()
        })
      })
      started.stdin.on('error', (error) => wire.onerror?.(error))
      started.stderr.on('data', (chunk: Buffer) => {
        stderr = (stderr + chunk.toString()).slice(-KEPT_STDERR)
      })
      started.stdout.on(
        'data',
        lines(maxMessageBytes, inTurn(wire), () => {
          tooLarge = true
          void kill()
        }),
      )
      // Who cannot be heard any more answers nothing: calls would wait out their time for it.
      started.stdout.once('end', async () => {
        if (!(await isGoneSoon()) && !isClosing) await kill()
      })
      return new Promise((resolve, reject) => {
        started.once('spawn', () => {
          isAlive = true
          resolve()
        })
        started.once('error', reject)
      })
    },
    send(message) {
      return new Promise((resolve, reject) => {
        const unheard = (cause?: Error) => reject(new Unheard('the server does not listen any more', { cause }))
        if (!child?.stdin?.writable) return unheard()
        child.stdin.write(`${JSON.stringify(message)}\n`, (error) => (error ? unheard(error) : resolve()))
      })
    },
    async close() {
      isClosing = true
      child?.stdin?.end() // a server that keeps the protocol ends by itself now
      for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
        if (await isGoneSoon()) return
        signalGroup(signal)
      }
      await gone
    },
    kill,
    get isAlive() {
      return isAlive
    },
    endsOnAbort: true,
    // Not by the code: the one that the library gives to a lost connection is for servers to use as they like.
    told(error) {
      const forgotten = error instanceof Unheard
      const reason = whyNot(error, server, isAlive ? '' : stderr.trim())
      return { reason, retryable: forgotten || !isAlive, tooLarge, forgotten }
    },
  }
  return wire
}

/** Node names the command also where the folder is what is missing. */
function whyNot(error: unknown, { command, cwd }: McpCommand, saidLast: string): string {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT')
    return cwd !== undefined && !existsSync(cwd) ? `its cwd ${cwd} is not there` : `there is no command ${command}`
  const message = messageOf(error)
  return saidLast === '' ? message : `${message}; it said last: ${endOf(saidLast)}`
}

/** Hands each line on as it is complete. */
function lines(limit: number, deliver: (line: string) => void, overflow: () => void) {
  let parts: Buffer[] = []
  let bytes = 0
  return (chunk: Buffer) => {
    let from = 0
    // Once above the limit, no line is complete any more: a message with a hole in it must not look whole.
    for (let end = chunk.indexOf(10); end !== -1 && bytes + end - from <= limit; end = chunk.indexOf(10, from)) {
      const line = Buffer.concat([...parts, chunk.subarray(from, end)])
        .toString()
        .trim()
      parts = []
      bytes = 0
      from = end + 1
      if (line !== '') deliver(line)
    }
    const rest = chunk.subarray(from)
    bytes += rest.length
    if (bytes > limit) overflow()
    else if (rest.length > 0) parts.push(rest)
  }
}
