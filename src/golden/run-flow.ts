import { checkInvariants } from '../protocol/invariants.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { lifecycles, statusesOf } from '../protocol/lifecycle.ts'
import type { DocumentKind } from '../psg/document.ts'
import { firstDifference } from './compare.ts'
import type { Driver, FlowChange, Outcome, Session } from './driver.ts'
import { type GoldenFlow, kindOfFile } from './flow.ts'

export interface FlowResult {
  readonly flow: string
  readonly backend: string
  readonly status: 'passed' | 'failed' | 'skipped'
  /** Why it was skipped, or the first thing that was not as it must be. */
  readonly reason?: string
  readonly rules: readonly string[]
  readonly duration_ms: number
}

/** Runs one flow on one backend of a driver. Never throws: what goes wrong is the result. */
export async function runFlow(
  flow: GoldenFlow,
  driver: Driver,
  backend: string,
  now: () => number = () => performance.now(),
): Promise<FlowResult> {
  const began = now()
  const result = (status: FlowResult['status'], reason?: string): FlowResult => ({
    flow: flow.name,
    backend,
    status,
    rules: flow.rules,
    duration_ms: Math.round(now() - began),
    ...(reason !== undefined && { reason }),
  })
  const missing = flow.needs.find((need) => !driver.capabilities.includes(need))
  if (missing !== undefined) return result('skipped', `${driver.name} does not offer ${missing}`)
  let session: Session | undefined
  try {
    session = await driver.open({ backend, seed: seedOf(flow.name), answers: flow.answers })
    const reason = (await play(flow, session)) ?? (await compare(flow, session))
    return reason === undefined ? result('passed') : result('failed', reason)
  } catch (error) {
    return result('failed', error instanceof Error ? error.message : String(error))
  } finally {
    await session?.close().catch(() => undefined) // the verdict stands; a store that does not close is told by its own tests
  }
}

/** The acts in order, up to the first that does not go as the script says. */
async function play(flow: GoldenFlow, session: Session): Promise<string | undefined> {
  for (const [i, { verb, given, refused }] of flow.script.entries()) {
    const wrong = await act(flow, session, verb, given, refused)
    if (wrong !== undefined) return `act ${i + 1} (${verb}): ${wrong}`
  }
  return undefined
}

async function act(
  flow: GoldenFlow,
  session: Session,
  verb: string,
  given: Json,
  refused: readonly string[] | undefined,
): Promise<string | undefined> {
  const judged = async (outcome: Promise<Outcome>) => judge(await outcome, refused)
  switch (verb) {
    case 'load':
      return judged(session.load(documentsOf(flow, given)))
    case 'move':
    case 'edit':
    case 'add':
    case 'remove':
    case 'depend':
      return judged(session.change({ [verb]: given } as unknown as FlowChange))
    case 'forbidden':
      return everyForbidden(session, given as { kind: string; id: string; from: string })
    case 'submit':
      return judged(session.submit(given as JsonObject))
    case 'settle': {
      const rest = await session.settle()
      return given !== null && rest !== given ? `the run is ${rest}, not ${String(given)}` : undefined
    }
    case 'decide':
      return judged(session.decide(given as never))
    case 'propose':
      return judged(session.propose())
    case 'cancel':
      return judged(session.cancel())
    case 'signal': {
      const { name, payload = null } = given as { name: string; payload?: Json }
      return judged(session.signal(name, payload))
    }
    case 'crash':
      await session.crash()
      return undefined
    case 'rollback':
      return judged(session.rollback())
    case 'verify': {
      const [finding] = await session.verify()
      return finding
    }
    case 'expect':
      return expectStatuses(session, given as { [kind: string]: Json })
    default:
      return `${verb} is not a verb`
  }
}

function judge(outcome: Outcome, refused: readonly string[] | undefined): string | undefined {
  if (!refused) return outcome.ok ? undefined : `was refused: ${outcome.message}`
  if (outcome.ok) return `was accepted, but must be refused by ${refused.join(', ')}`
  const missing = refused.find((rule) => !outcome.rules.includes(rule))
  return missing === undefined ? undefined : `was refused by ${outcome.rules.join(', ')}, not by ${missing}`
}

/** Every move that the lifecycle does not have, from one status: each must be refused under its own id. */
async function everyForbidden(
  session: Session,
  { kind, id, from }: { kind: string; id: string; from: string },
): Promise<string | undefined> {
  const lifecycle = kind as keyof typeof lifecycles
  const allowed: readonly string[] =
    (lifecycles[lifecycle] as { readonly [status: string]: readonly string[] })[from] ?? []
  for (const to of statusesOf(lifecycle)) {
    if (to === from || allowed.includes(to)) continue
    const wrong = judge(await session.change({ move: { kind, id, to } }), [`lifecycle.${kind}.${from}->${to}`])
    if (wrong !== undefined) return `${from} to ${to} ${wrong}`
  }
  return undefined
}

async function expectStatuses(session: Session, given: { [kind: string]: Json }): Promise<string | undefined> {
  for (const [what, wanted] of Object.entries(given)) {
    const kind = what === 'steps' ? 'plan' : (what as DocumentKind)
    const [document] = await session.documents(kind)
    const found =
      what === 'steps'
        ? ((document as JsonObject | undefined)?.steps as readonly JsonObject[] | undefined)?.map(
            (step) => step.status!,
          )
        : (document as JsonObject | undefined)?.status
    const difference = firstDifference(wanted, (found ?? null) as Json, new Set())
    if (difference !== undefined) return `${what}: ${difference}`
  }
  return undefined
}

/** Documents and events against the expected files, then the invariants. */
async function compare(flow: GoldenFlow, session: Session): Promise<string | undefined> {
  const volatile = new Set(flow.volatile)
  const subjects: { [scope: string]: Json } = {}
  for (const kind of new Set([
    ...Object.keys(flow.expected).map(kindOfFile),
    ...(flow.invariants.length > 0 ? (['context', 'plan', 'confirm', 'trace'] as const) : []),
    ...flow.invariants.map(({ scope }) => kindOfFile(scope)),
  ])) {
    if (kind === undefined) continue
    const documents = await session.documents(kind)
    if (documents[0] !== undefined) subjects[kind] = documents[0]
    for (const [name, expected] of Object.entries(flow.expected)) {
      if (kindOfFile(name) !== kind) continue
      const place = Number(/-(\d+)$/.exec(name)?.[1] ?? 1) - 1
      const actual = documents[place]
      if (actual === undefined) return `${name}.json: there is no such ${kind}`
      const difference = firstDifference(expected, actual, volatile)
      if (difference !== undefined) return `${name}.json: ${difference}`
    }
  }
  const events =
    flow.expectedEvents || flow.invariants.some(({ scope }) => scope === 'event') ? await session.events() : []
  if (flow.expectedEvents) {
    const difference = firstDifference(
      flow.expectedEvents as Json,
      events.slice(0, Math.max(events.length, flow.expectedEvents.length)) as Json,
      volatile,
    )
    if (difference !== undefined) return `events.ndjson: ${difference}`
  }
  const breaches = [
    ...checkInvariants(
      flow.invariants.filter(({ scope }) => scope !== 'event'),
      subjects,
    ),
    ...events.flatMap((event) =>
      checkInvariants(
        flow.invariants.filter(({ scope }) => scope === 'event'),
        { event },
      ),
    ),
  ]
  return breaches[0] && `invariant ${breaches[0].id}: ${breaches[0].path} ${breaches[0].message}`
}

function documentsOf(flow: GoldenFlow, given: Json): readonly (readonly [DocumentKind, Json])[] {
  const names = Array.isArray(given) ? (given as string[]) : Object.keys(flow.input)
  return names.flatMap((name) => {
    const kind = kindOfFile(name)
    return kind === undefined || flow.input[name] === undefined
      ? []
      : [[kind, withoutComment(flow.input[name]!)] as const]
  })
}

/** The protocol's own fixtures carry a `$comment` on top, which their schemas refuse. */
const withoutComment = (document: Json): Json => {
  if (!isObject(document) || !('$comment' in document)) return document
  const { $comment: _, ...rest } = document
  return rest as Json
}

const seedOf = (name: string): number =>
  [...name].reduce((sum, char) => (Math.imul(sum, 31) + char.charCodeAt(0)) | 0, 7) >>> 0
