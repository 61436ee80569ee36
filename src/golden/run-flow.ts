import type { Json, JsonObject } from '../protocol/json.ts'
import { messageOf } from '../protocol/thrown.ts'
import { DOCUMENT_KINDS, type DocumentKind } from '../psg/document.ts'
import { judge, VERBS } from './acts.ts'
import { checkPlay } from './check-options.ts'
import { checkedSession } from './checked-session.ts'
import { firstDifference, firstUnlike } from './compare.ts'
import type { Driver, Session } from './driver.ts'
import { firstBreach } from './first-breach.ts'
import type { GoldenFlow } from './flow.ts'
import type { Act } from './flow-script.ts'
import { refusals } from './held.ts'
import { kindOfFile, placeOfFile, withoutComment } from './inputs.ts'

export interface FlowResult {
  readonly flow: string
  readonly backend: string
  readonly status: 'passed' | 'failed' | 'skipped'
  /** Why it was skipped, or the first thing that was not as it must be. */
  readonly reason?: string
  readonly rules: readonly string[]
  readonly duration_ms: number
}

export interface FlowOptions {
  /** A flow that takes longer has failed: 60 s. */
  readonly limitMs?: number
}

/** Runs one flow on one backend of a driver. Throws InvalidInput for what is none of these, and then nothing more: what goes wrong is the result. */
export async function runFlow(
  flow: GoldenFlow,
  driver: Driver,
  backend: string,
  options: FlowOptions = {},
): Promise<FlowResult> {
  checkPlay({ flow, driver, backend }, options)
  const { limitMs = LIMIT_MS } = options
  const began = performance.now()
  const result = (status: FlowResult['status'], reason?: string): FlowResult => ({
    flow: flow.name,
    backend,
    status,
    rules: flow.rules,
    duration_ms: Math.round(performance.now() - began),
    ...(reason !== undefined && { reason }),
  })
  const missing = flow.needs.find((need) => !driver.capabilities.includes(need))
  if (missing !== undefined) return result('skipped', `${driver.name} does not offer ${missing}`)
  const doing: Doing = {}
  let opening: Promise<Session> | undefined
  let session: Session | undefined
  try {
    opening = driver.open({
      backend,
      bare: flow.needs.includes('bare_store'),
      seed: seedOf(flow.name),
      answers: flow.answers,
      ...(flow.files && { files: flow.files }),
    })
    session = checkedSession(await within(limitMs, opening))
    const reason = await within(limitMs, played(flow, session, doing))
    return reason === undefined ? result('passed') : result('failed', reason)
  } catch (error) {
    const message = messageOf(error)
    return result('failed', doing.act ? `${doing.act.at} ${doing.act.verb}: ${message}` : message)
  } finally {
    // The verdict stands: a runtime that does not close is told by its own tests.
    if (session) await within(limitMs, closed(session)).catch(() => undefined)
    else opening?.then((late) => late.close()).catch(() => undefined) // nobody else has it
  }
}

/** A driver's may also throw before it promises anything. */
const closed = async (session: Session): Promise<void> => session.close()

const LIMIT_MS = 60_000

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`takes longer than ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

/** The act in hand, for whatever ends it before it can say what is wrong. */
interface Doing {
  act?: Act | undefined
}

const played = async (flow: GoldenFlow, session: Session, doing: Doing): Promise<string | undefined> =>
  (await play(flow, session, doing)) ?? compare(flow, session)

/** The acts in order, up to the first that does not go as the script says. */
async function play(flow: GoldenFlow, session: Session, doing: Doing): Promise<string | undefined> {
  const { before, after } = refusals(session)
  for (const act of flow.script) {
    doing.act = act
    const { verb, given, refused, at } = act
    await before(act)
    const answer = await VERBS[verb]!.run(session, given, flow.input)
    const wrong = (typeof answer === 'object' ? judge(answer, refused) : answer) ?? (await after(act))
    if (wrong !== undefined) return `${at} ${verb}: ${wrong}`
  }
  doing.act = undefined
  return undefined
}

/** Documents and events against the expected files, then the invariants. */
async function compare(flow: GoldenFlow, session: Session): Promise<string | undefined> {
  const volatile = new Set(flow.volatile)
  const hasInvariants = flow.invariants.length > 0
  const shown = new Map<DocumentKind, readonly Json[]>()
  for (const kind of DOCUMENT_KINDS) {
    const wantedOf = Object.entries(flow.expected).filter(([name]) => kindOfFile(name) === kind)
    if (wantedOf.length === 0 && !hasInvariants) continue
    const documents = await session.documents(kind)
    shown.set(kind, documents)
    for (const [name, expected] of wantedOf) {
      const actual = documents[placeOfFile(name)]
      if (actual === undefined) return `expected/${name}.json: there is no such ${kind}`
      const wanted = withoutComment(expected)
      const difference =
        flow.compare === 'exact' ? firstDifference(wanted, actual, volatile) : firstUnlike(wanted, actual)
      if (difference !== undefined) return `expected/${name}.json: ${difference}`
    }
  }
  const events = flow.expectedEvents || hasInvariants ? await session.events() : []
  if (flow.expectedEvents) {
    const difference = firstOdd(flow.expectedEvents, events, volatile)
    if (difference !== undefined) return `expected/events.ndjson:${difference}`
  }
  return firstBreach(flow.invariants, shown, events)
}

/** The first line that is not as expected, told by what kind of event it should be before anything else. */
function firstOdd(
  expected: readonly JsonObject[],
  events: readonly JsonObject[],
  volatile: ReadonlySet<string>,
): string | undefined {
  for (let i = 0; i < Math.max(expected.length, events.length); i++) {
    const [wanted, found] = [expected[i]?.event_type ?? 'nothing', events[i]?.event_type ?? 'nothing']
    if (wanted !== found) return `${i + 1} must be ${String(wanted)}, found ${String(found)}`
    const difference = firstDifference(expected[i]!, events[i]!, volatile)
    if (difference !== undefined) return `${i + 1} ${String(wanted)}: ${difference}`
  }
  return undefined
}

const seedOf = (name: string): number =>
  [...name].reduce((sum, char) => (Math.imul(sum, 31) + char.charCodeAt(0)) | 0, 7) >>> 0
