import type { Json, JsonObject } from '../protocol/json.ts'

/** What a scripted model says: plain text, or any of these. */
export type Reply = string | ReplyParts

export interface ReplyParts {
  readonly text?: string
  /** As JSON text, for a schema. */
  readonly object?: Json
  readonly reasoning?: string
  /** By the tools' registered names. */
  readonly tool_calls?: readonly { readonly tool: string; readonly args: JsonObject }[]
  /** Counted by length when absent. */
  readonly usage?: { readonly prompt: number; readonly completion: number }
  /** Fails instead; the next entry of the script is what the following attempt gets. */
  readonly error?: { readonly message: string; readonly retryable?: boolean; readonly retry_after_ms?: number }
  readonly delay_ms?: number
}
