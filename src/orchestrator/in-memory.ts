import { anything, list, needed, refuseUnlessFit, text } from '../protocol/fields.ts'
import type { Json } from '../protocol/json.ts'
import { jsonCopy } from '../protocol/json-copy.ts'
import type { ValueStateLayer } from '../vsl/backend.ts'

/**
 * The memory store that the protocol publishes, in both of its generations: `get` and `set`, and the snapshots and events of a run. It copies in and
 * out, so that what works with it works with a real store. A flow that is given one keeps its snapshots and events in it too.
 */
export class InMemoryVSL implements ValueStateLayer {
  readonly #values = new Map<string, string>()
  readonly #events = new Map<string, string[]>()

  async get(key: string): Promise<Json | undefined> {
    const text = this.#values.get(key)
    return text === undefined ? undefined : JSON.parse(text)
  }
  async set(key: string, value: Json): Promise<void> {
    refuseUnlessFit('value', { key, value }, VALUE)
    this.#values.set(key, textOf(value, 'value'))
  }

  async saveSnapshot(runId: string, context: unknown): Promise<void> {
    refuseUnlessFit('snapshot', { runId, context }, SNAPSHOT)
    this.#values.set(`snapshots/${runId}`, textOf(context, 'context'))
  }
  /** `null` when there is none. */
  async loadSnapshot(runId: string): Promise<Json> {
    return (await this.get(`snapshots/${runId}`)) ?? null
  }
  async appendEvents(runId: string, events: readonly unknown[]): Promise<void> {
    refuseUnlessFit('events', { runId, events }, EVENTS)
    const texts = events.map((event) => textOf(event, 'event')) // all or none
    const known = this.#events.get(runId) ?? []
    for (const text of texts) known.push(text)
    this.#events.set(runId, known)
  }
  async getEvents(runId: string): Promise<readonly Json[]> {
    return (this.#events.get(runId) ?? []).map((text) => JSON.parse(text))
  }
}

/** The memory layer that the protocol publishes: it says what it was given, and does nothing in the world. */
export class InMemoryAEL {
  async execute<A>(action: A): Promise<{ status: 'executed'; action: A }> {
    return { status: 'executed', action }
  }
  /** The older generation: gives back the input. */
  async executeAction<I>(action: OlderAction<I>): Promise<{ output: I; events: readonly never[] }> {
    refuseUnlessFit('action', action, { '*': anything })
    return { output: action.input, events: [] }
  }
}

/** Throws InvalidInput for what has no text, as a circle. */
function textOf(value: unknown, whole: string): string {
  try {
    return JSON.stringify(value)
  } catch (error) {
    jsonCopy(value, whole, whole)
    throw error
  }
}

const RUN = { runId: needed(text) }
const VALUE = { key: needed(text), value: needed(anything) }
const SNAPSHOT = { ...RUN, context: needed(anything) }
const EVENTS = { ...RUN, events: needed(list) }

interface OlderAction<Input> {
  readonly module: string
  readonly stepId?: string
  readonly input: Input
  readonly context?: unknown
}
