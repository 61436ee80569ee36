import { nextRetry } from '../ael/with-retry.ts'
import { eventKind, eventProblems } from '../protocol/base-event.ts'
import { type Clock, isoNow } from '../protocol/clock.ts'
import { ActionError, InvalidInput, type Problem, Refused } from '../protocol/errors.ts'
import { anything, type Fields, problemsIn } from '../protocol/fields.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { jsonCopy } from '../protocol/json-copy.ts'
import type { Report } from '../protocol/reporter.ts'
import { messageOf } from '../protocol/thrown.ts'
import { under } from '../protocol/under.ts'
import { isValid, problems } from '../protocol/validate.ts'
import { unlessAborted } from '../protocol/waiting.ts'
import type { EventDraft } from '../psg/change.ts'
import { DOCUMENT_KINDS, type DocumentKind } from '../psg/document.ts'
import { plain } from '../psg/plain.ts'
import {
  FlowFailure,
  type ModuleCall,
  type ModuleHandler,
  type ModuleOutput,
  olderRetry,
  type RuntimeContext,
} from './flow.ts'
import { ONCE } from './flow-check.ts'
import type { Said } from './flow-record.ts'

export interface Speaking {
  readonly module: string
  readonly input?: unknown
  readonly handler: ModuleHandler | undefined
  readonly ctx: RuntimeContext
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Told what is said too late, or where nobody reads it. */
  readonly report: Report
}

const SAID: Fields = { output: anything, events: anything }

/** Lets a module speak and checks what it says, as a whole, before anybody remembers it. */
export async function speak({ module, input, handler, ctx, clock, signal, report }: Speaking): Promise<Said> {
  if (!handler) throw new FlowFailure('MODULE_NOT_REGISTERED', `no handler is registered for module ${module}`)
  const emitted: unknown[] = []
  let isOver = false
  const call: ModuleCall = {
    ctx: { ...ctx.coordination, ...ctx },
    ...(input !== undefined && { input }),
    emitEvent: (event) => (isOver ? report(tooLate(module)) : void emitted.push(asTold(event))), // thrown, it would end the process
    signal,
  }
  const attempt: ModuleHandler = (call) => {
    emitted.length = 0 // what one emitted that then failed was not said
    return handler(call)
  }
  const said = await called(attempt, call, module, { ctx, clock, signal })
  isOver = true
  if (!isObject(said) || !('output' in said))
    throw new FlowFailure('INVALID_OUTPUT', `module ${module} must return { output, events }`)
  const unread = problemsIn(said, SAID, '')
  if (unread.length > 0) report(new InvalidInput(`what module ${module} returned`, unread)) // the protocol's own entry point takes it
  const { output, events = [] } = said
  if (!Array.isArray(events)) throw new FlowFailure('INVALID_EVENT', `the events of module ${module} are no list`)
  const copy = plainJson(output, module)
  const documents = documentsIn(module, copy)
  if (documents.length > 1 && ONCE.includes(module))
    throw new FlowFailure(
      'INVALID_OUTPUT',
      `module ${module} must say one ${module}, not ${documents.length}: a flow is about one`,
    )
  for (const document of documents) refuseInvalid(module, document)
  return { output: copy, events: drafts([...events, ...emitted], module, clock) }
}

const tooLate = (module: string): Refused =>
  new Refused(
    `module ${module} emitted an event after it had returned`,
    'it is lost; wait for what emits before you return',
  )

/** The protocol objects in a module's output: the output itself, or what it holds under the module's name, singular or plural. */
export function documentsIn(module: string, output: Json): readonly JsonObject[] {
  if (!DOCUMENT_KINDS.includes(module as DocumentKind) || !isObject(output)) return []
  const inner = output[module] ?? output[`${module}s`]
  if (Array.isArray(inner)) return inner.filter(isObject) as JsonObject[]
  if (isObject(inner)) return [inner as JsonObject]
  return `${module}_id` in output ? [output as JsonObject] : []
}

async function called(
  handler: ModuleHandler,
  call: ModuleCall,
  module: string,
  { ctx, clock, signal }: Pick<Speaking, 'ctx' | 'clock' | 'signal'>,
): Promise<ModuleOutput> {
  const retry = olderRetry(ctx.options)
  for (let failures = 1; ; failures++) {
    try {
      if (signal.aborted) throw stopped(signal) // nobody would hear what it says
      return await unlessStopped(Promise.resolve(handler(call)), signal)
    } catch (error) {
      if (error instanceof FlowFailure) throw error
      const message = messageOf(error)
      const failure = new ActionError('action_failed', message, { retryable: true, cause: error })
      const more = error instanceof InvalidInput ? { problems: error.problems } : {}
      const wait = retry && nextRetry(retry, failures, failure, clock.random())
      if (wait === undefined)
        throw new FlowFailure('RUNTIME_EXCEPTION', `module ${module} failed: ${message}`, more, { cause: error })
      await unlessStopped(clock.sleep(wait, signal), signal)
    }
  }
}

/** Why nobody listens any more. */
const stopped = ({ reason }: AbortSignal): FlowFailure =>
  reason instanceof FlowFailure
    ? reason
    : new FlowFailure('CANCELLED', 'the flow was cancelled before its plan was submitted')

/** A handler that does not listen is left to itself. */
async function unlessStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const answered = work.then((answer) => ({ answer }))
  const heard = await unlessAborted(answered, signal).catch((error) => {
    throw signal.aborted ? stopped(signal) : error
  })
  if (!heard) throw stopped(signal)
  return heard.answer
}

/** The output as it will be read again. */
function plainJson(output: unknown, module: string): Json {
  try {
    return jsonCopy(output, `the output of module ${module}`, 'output') ?? null
  } catch (cause) {
    const { message, problems } = cause as InvalidInput
    throw new FlowFailure('INVALID_OUTPUT', message, { problems }, { cause })
  }
}

function refuseInvalid(module: string, document: JsonObject): void {
  const found = problems(module as DocumentKind, document)
  if (found.length > 0) {
    const { message } = new InvalidInput(`the ${module} of module ${module}`, found)
    throw new FlowFailure('INVALID_OUTPUT', message, { problems: under(module, found) })
  }
}

/** Events with a valid id keep it; the time is the commit's to give, so that a graph's events stay in order. */
function drafts(events: readonly unknown[], module: string, clock: Clock): readonly EventDraft[] {
  const ids = new Set<unknown>()
  return events.map((given, i) => {
    const { timestamp: _, event_id = clock.uuid(), ...event } = Object(asTold(given)) as JsonObject
    const found = problemsOf({ ...event, event_id, timestamp: isoNow(clock) })
    if (!isValid('identifier', event_id))
      found.push({ path: 'event_id', rule: 'pattern', message: 'must be a UUID v4 in lower case' })
    else if (ids.has(event_id)) found.push({ path: 'event_id', rule: 'unique', message: 'is used twice' })
    ids.add(event_id)
    if (found.length === 0) return { event_id: event_id as string, event: event as EventDraft['event'] }
    const { message } = new InvalidInput(`event ${i} of module ${module}`, found)
    throw new FlowFailure('INVALID_EVENT', message, { problems: under(`events[${i}]`, found) })
  })
}

/** A copy: whoever told it may use the object again. What cannot be copied is refused with the others, as it is. */
function asTold(event: unknown): unknown {
  try {
    return plain({ ...Object(event) }, '', 'event')
  } catch {
    return event
  }
}

function problemsOf(event: JsonObject): Problem[] {
  try {
    plain(event, '', 'event')
    if (eventKind(event) === 'base-event')
      return [
        { path: 'source', rule: 'event_shape', message: 'belongs to events inside objects; name an event_family' },
      ]
    return [...eventProblems(event)]
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    return [...error.problems]
  }
}
