/**
 * A model as the packages of the AI SDK make it, or the name of one behind its gateway. Told here by what every one of them has: the library's own
 * types do not pass where libraries are checked strictly, and whoever imports this file would have to mend them.
 */
export type Model = string | CurrentModel | OlderModel

/** What a model of your own is. */
export interface CurrentModel extends ModelNames {
  readonly specificationVersion: 'v3'
  doGenerate(request: ModelRequest): PromiseLike<ModelAnswer>
  doStream(request: ModelRequest): PromiseLike<{ readonly stream: ReadableStream<ModelPart> }>
}

interface OlderModel extends ModelNames {
  readonly specificationVersion: 'v2'
  doGenerate(request: never): PromiseLike<unknown>
  doStream(request: never): PromiseLike<unknown>
}

interface ModelNames {
  readonly provider: string
  readonly modelId: string
  readonly supportedUrls: object
}

/** What a model is asked. */
export interface ModelRequest {
  readonly prompt: readonly ModelMessage[]
  readonly tools?: readonly ModelTool[] | undefined
  readonly toolChoice?: { readonly type: string; readonly toolName?: string } | undefined
  /** `json` where the action has a schema. */
  readonly responseFormat?: { readonly type: 'text' | 'json'; readonly schema?: object } | undefined
  readonly maxOutputTokens?: number | undefined
  readonly temperature?: number | undefined
  readonly topP?: number | undefined
  readonly topK?: number | undefined
  readonly seed?: number | undefined
  readonly stopSequences?: readonly string[] | undefined
  readonly providerOptions?: object | undefined
  /** To be sent along: the key under which the server may know a second attempt. */
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined
  readonly abortSignal?: AbortSignal | undefined
}

export type ModelMessage =
  | { readonly role: 'system'; readonly content: string }
  | { readonly role: 'user' | 'assistant' | 'tool'; readonly content: readonly MessagePart[] }

export type MessagePart =
  | { readonly type: 'text' | 'reasoning'; readonly text: string }
  /** Base64, of an action's own messages. */
  | { readonly type: 'file'; readonly mediaType: string; readonly data: unknown }
  | { readonly type: 'tool-call'; readonly toolCallId: string; readonly toolName: string; readonly input: unknown }
  | {
      readonly type: 'tool-result'
      readonly toolCallId: string
      readonly toolName: string
      readonly output: { readonly type: string; readonly value?: unknown }
    }
  /** Is not sent. */
  | { readonly type: 'tool-approval-response' }

/** A tool that may be chosen, by the name that `toolName` has then. */
export type ModelTool =
  | {
      readonly type: 'function'
      readonly name: string
      readonly description?: string | undefined
      readonly inputSchema: object
    }
  /** Is not sent. */
  | { readonly type: 'provider'; readonly name: string }

/** What is read of an answer in one piece. */
export interface ModelAnswer extends ModelEnd {
  readonly content: readonly ModelContent[]
  readonly warnings: readonly object[]
}

export type ModelContent =
  | { readonly type: 'text' | 'reasoning'; readonly text: string }
  | ModelToolCall
  /** Nobody reads them. */
  | { readonly type: 'file' | 'source' | 'tool-result' | 'tool-approval-request' }

export interface ModelToolCall {
  readonly type: 'tool-call'
  readonly toolCallId: string
  readonly toolName: string
  /** JSON. */
  readonly input: string
}

/** Why it ended, and what it used: that is reckoned where it is not said. */
export interface ModelEnd {
  /** A stream that ends with `other`, without `raw`, is taken for one that was cut off. */
  readonly finishReason: {
    readonly unified: 'stop' | 'length' | 'content-filter' | 'tool-calls' | 'error' | 'other'
    readonly raw?: string | undefined
  }
  readonly usage?: {
    readonly inputTokens?: { readonly total?: number | undefined }
    readonly outputTokens?: { readonly total?: number | undefined }
  }
}

/** What is read of a stream. */
export type ModelPart =
  | { readonly type: 'text-start' | 'text-end' | 'reasoning-start' | 'reasoning-end'; readonly id: string }
  | { readonly type: 'text-delta' | 'reasoning-delta'; readonly id: string; readonly delta: string }
  | ModelToolCall
  | ({ readonly type: 'finish' } & ModelEnd)
  | { readonly type: 'error'; readonly error: unknown }
  | { readonly type: 'stream-start'; readonly warnings: readonly object[] }
  /** Nobody reads them. */
  | {
      readonly type:
        | 'tool-input-start'
        | 'tool-input-delta'
        | 'tool-input-end'
        | 'tool-result'
        | 'tool-approval-request'
        | 'file'
        | 'source'
        | 'response-metadata'
        | 'raw'
    }
