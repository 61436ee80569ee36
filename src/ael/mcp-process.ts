import { type ChildProcess, spawn } from 'node:child_process'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { isObject } from '../protocol/json.ts'
import type { McpServer } from './mcp-server.ts'
import { watchman } from './mcp-watchman.ts'

/** A server process of our own, spoken to over its stdin and stdout, together with whatever it starts itself. */
export interface McpProcess extends Transport {
  /** Ends the whole process group at once; resolves when the process is gone. */
  kill(): Promise<void>
  readonly isAlive: boolean
  /** The end of what it wrote to stderr. */
  readonly stderr: string
  /** Did it end because one of its messages was larger than it may be? */
  readonly tooLarge: boolean
  readonly limit: number
}

const KEPT_STDERR = 2_048
const PATIENCE_MS = 500

/**
 * The SDK's own transport signals the process alone, so that what `npx` or a shell started for us would outlive it; this one makes a process
 * group and ends all of it.
 */
export function mcpProcess(server: McpServer, env: Record<string, string>, maxMessageBytes: number): McpProcess {
  let child: ChildProcess | undefined
  let gone: Promise<void> = Promise.resolve()
  let stderr = ''
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

  const transport: McpProcess = {
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
          transport.onclose?.()
        })
      })
      started.stdin.on('error', (error) => transport.onerror?.(error))
      started.stderr.on('data', (chunk: Buffer) => {
        stderr = (stderr + chunk.toString()).slice(-KEPT_STDERR)
      })
      const received = (line: string) => transport.onmessage?.(answerable(JSON.parse(line)))
      started.stdout.on(
        'data',
        lines(maxMessageBytes, received, transport, () => {
          tooLarge = true
          void kill()
        }),
      )
      // Who cannot be heard any more answers nothing: calls would wait out their time for it.
      started.stdout.once('end', async () => {
        if (!(await within(PATIENCE_MS, gone)) && !isClosing) await kill()
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
        if (!child?.stdin?.writable) return reject(new Error('the server is gone'))
        child.stdin.write(`${JSON.stringify(message)}\n`, (error) => (error ? reject(error) : resolve()))
      })
    },
    async close() {
      isClosing = true
      child?.stdin?.end() // a server that keeps the protocol ends by itself now
      for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
        if (await within(PATIENCE_MS, gone)) return
        signalGroup(signal)
      }
      await gone
    },
    kill,
    get stderr() {
      return stderr
    },
    get tooLarge() {
      return tooLarge
    },
    get isAlive() {
      return isAlive
    },
    limit: maxMessageBytes,
  }
  return transport
}

/** The library drops an answer that is none, such as `result: null`, and the call would wait out its time: it is told as an error. */
function answerable(message: unknown): JSONRPCMessage {
  const { id, method, result, error } = Object(message) as { [field: string]: unknown }
  const isAnswer = (typeof id === 'string' || typeof id === 'number') && method === undefined
  if (!isAnswer || isObject(result) || isObject(error)) return message as JSONRPCMessage
  return { jsonrpc: '2.0', id, error: { code: INTERNAL_ERROR, message: 'the server answered without a result' } }
}
const INTERNAL_ERROR = -32603

/** Hands each line on as it is complete. What is no message (a stray print) is reported and skipped. */
function lines(limit: number, received: (line: string) => void, transport: Transport, overflow: () => void) {
  let parts: Buffer[] = []
  let bytes = 0
  let delivered: Promise<void> = Promise.resolve()
  /** One after another: the library drops the progress of a call whose answer it is handed in the same breath. */
  const deliver = (line: string) => {
    delivered = delivered.then(() => received(line)).catch((error: Error) => transport.onerror?.(error))
  }
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

function within(ms: number, ended: Promise<void>): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), ms)
    ended.then(() => {
      clearTimeout(timer)
      resolve(true)
    })
  })
}
