import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { isObject } from '../protocol/json.ts'

/** What a server is spoken to through: the pipes of a process of ours, or requests to a URL. */
export interface McpWire extends Transport {
  /** Ends it at once, whatever is in hand; resolves when it is gone. */
  kill(): Promise<void>
  readonly isAlive: boolean
  /** Is it ended for a call that was aborted? A process of ours is, to make sure; a server that others use too is only told. */
  readonly endsOnAbort: boolean
  /** What is to be said of an error that came through it. */
  told(error: unknown): Told
}

export interface Told {
  readonly reason: string
  readonly retryable: boolean
  readonly retryAfterMs?: number
  /** It was a message larger than it may be. */
  readonly tooLarge?: boolean
  /** The server does not know us any more, or does not listen, and has done nothing: through a new wire the same may be asked again. */
  readonly forgotten?: boolean
}

/** Hands messages on, one after another: the library drops the progress of a call whose answer it is handed in the same breath. */
export function inTurn(transport: Transport): (text: string) => Promise<unknown> {
  let delivered: Promise<unknown> = Promise.resolve()
  return (text) => {
    delivered = delivered
      .then(() => {
        const said: unknown = JSON.parse(text)
        for (const message of Array.isArray(said) ? said : [said]) transport.onmessage?.(answerable(message))
        return said
      })
      .catch((error: Error) => transport.onerror?.(error)) // what is no message (a stray print) is reported and skipped
    return delivered
  }
}

/**
 * The library drops an answer that is not wholly as it should be, and the call would wait out its time: what else stands in it is left out, `_meta`,
 * which nobody reads and of which PHP makes a list where it is empty, and what it calls null, which many servers say for what they do not have; one without a result, such as `result: null`, is told as an error.
 */
function answerable(message: unknown): JSONRPCMessage {
  const { id, method, result, error } = Object(message) as { [field: string]: unknown }
  const isAnswer = (typeof id === 'string' || typeof id === 'number') && method === undefined
  if (!isAnswer) return message as JSONRPCMessage
  if (isObject(result)) return { jsonrpc: '2.0', id, result: read(result) }
  const { code, message: said, data } = Object(error) as { [field: string]: unknown }
  return {
    jsonrpc: '2.0',
    id,
    error: {
      code: Number.isSafeInteger(code) ? Number(code) : INTERNAL_ERROR,
      message: typeof said === 'string' ? said : 'the server answered without a result',
      ...(data !== undefined && { data }),
    },
  }
}
const INTERNAL_ERROR = -32603

const read = (result: object): { [field: string]: unknown } =>
  Object.fromEntries(Object.entries(result).filter(([field, value]) => field !== '_meta' && value !== null))
