import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { lifecycles, statusesOf } from '../protocol/lifecycle.ts'
import { firstDifference, firstMiss } from './compare.ts'
import type { Capability, FlowChange, FlowDecision, Outcome, Session } from './driver.ts'
import { documentsNamed, type Inputs, kindOfFile, placeOfFile } from './inputs.ts'

/** How a script speaks. A verb gives an Outcome, which the act's `refused` judges, or says what is wrong; `undefined`: all is well. */
export interface Verb {
  readonly needs?: readonly Capability[]
  /** Does a runtime answer it with an Outcome? */
  readonly refusable?: true
  readonly run: (session: Session, given: Json, input: Inputs) => Promise<Outcome | string | undefined>
}

const change = (name: string): Verb => ({
  refusable: true,
  run: (session, given) => session.change({ [name]: given } as unknown as FlowChange),
})

/** A verb that is one method of the session; a driver that names the capability must have it. */
const method = <M extends keyof Session>(
  name: M,
  needs: readonly Capability[],
  run: (call: NonNullable<Session[M]>, given: Json) => Promise<Outcome | undefined>,
): Verb => ({
  needs,
  async run(session, given) {
    const call = session[name]
    return call ? run(call.bind(session) as typeof call, given) : lacks(name, needs)
  },
})
const lacks = (name: string, needs: readonly Capability[]): string =>
  `the driver has no ${name}, though it offers ${needs.join(' or ')}`
const asked: typeof method = (...given) => ({ ...method(...given), refusable: true })

export const VERBS: { readonly [verb: string]: Verb } = {
  load: {
    refusable: true,
    run: (session, given, input) => session.load(documentsNamed(input, given as readonly string[] | null)),
  },
  move: change('move'),
  edit: change('edit'),
  add: change('add'),
  remove: change('remove'),
  depend: change('depend'),
  free: change('free'),
  forbidden: { run: (session, given) => everyForbidden(session, given as unknown as Standing) },
  submit: asked('submit', ['execution'], (submit, given) => submit(given as JsonObject)),
  settle: {
    needs: ['execution'],
    async run(session, given) {
      if (!session.settle) return lacks('settle', ['execution'])
      const rest = await session.settle()
      return given !== null && rest !== given ? `the run is ${rest}, not ${String(given)}` : undefined
    },
  },
  underway: method('underway', ['execution'], (underway) => done(underway())),
  cancel: asked('cancel', ['execution'], (cancel) => cancel()),
  signal: asked('signal', ['execution'], (signal, given) => {
    const { name, payload = null } = given as { name: string; payload?: Json }
    return signal(name, payload)
  }),
  decide: asked('decide', ['approval'], (decide, given) => decide(given as unknown as FlowDecision)),
  propose: asked('propose', ['approval'], (propose) => propose()),
  crash: method('crash', ['recovery'], (crash) => done(crash())),
  freeze: method('freeze', ['takeover'], (freeze) => done(freeze())),
  thaw: method('thaw', ['takeover'], (thaw) => done(thaw())),
  rollback: asked('rollback', ['rollback'], (rollback) => rollback()),
  snapshot: asked('snapshot', ['rollback'], (snapshot, name) => snapshot(String(name))),
  restore: asked('restore', ['rollback'], (restore, name) => restore(String(name))),
  disk: method('disk', ['drift', 'rollback'], (disk, given) => done(disk(given as { [path: string]: string | null }))),
  want: asked('want', ['drift'], (want, given) => want(given as { [path: string]: string })),
  reconcile: asked('reconcile', ['drift'], (reconcile, strategy) => reconcile(String(strategy))),
  verify: { run: async (session) => (await session.verify())[0] },
  told: { run: told },
  expect: { run: expected },
}

async function done(work: Promise<void>): Promise<undefined> {
  await work
}

interface Standing {
  readonly kind: string
  readonly id: string
  readonly from: string
}

/** Every move that the lifecycle does not have, from one status: each must be refused under its own id. */
async function everyForbidden(session: Session, { kind, id, from }: Standing): Promise<string | undefined> {
  const lifecycle = kind as keyof typeof lifecycles
  const allowed = (lifecycles[lifecycle] as { readonly [status: string]: readonly string[] })[from] ?? []
  for (const to of statusesOf(lifecycle)) {
    if (to === from || allowed.includes(to)) continue
    const wrong = judge(await session.change({ move: { kind, id, to } }), [`lifecycle.${kind}.${from}->${to}`])
    if (wrong !== undefined) return `${from} to ${to} ${wrong}`
  }
  return undefined
}

export function judge(outcome: Outcome, refused: readonly string[] | undefined): string | undefined {
  if (!refused) return outcome.ok ? undefined : `was refused: ${outcome.message}`
  if (outcome.ok) return `was accepted, but must be refused by ${refused.join(', ')}`
  const missing = refused.find((rule) => !outcome.rules.includes(rule))
  return missing === undefined ? undefined : `was refused by ${outcome.rules.join(', ')}, not by ${missing}`
}

/** A list: these were told in this order, whatever stands between. `among` and `events`: of those whose type begins so, exactly these. */
async function told(session: Session, given: Json): Promise<string | undefined> {
  const events = await session.events()
  if (Array.isArray(given)) {
    let from = 0
    for (const [i, pattern] of given.entries()) {
      const at = events.findIndex((event, place) => place >= from && firstMiss(patternOf(pattern), event) === undefined)
      if (at < 0) return `[${i}] was not told: ${JSON.stringify(pattern)}`
      from = at + 1
    }
    return undefined
  }
  const { among, events: wanted } = given as { among: string; events: readonly Json[] }
  const those = events.filter(({ event_type }) => String(event_type).startsWith(among))
  for (let i = 0; i < Math.max(those.length, wanted.length); i++) {
    if (i >= wanted.length) return `[${i}] is one too many: ${JSON.stringify(those[i]!.event_type)}`
    if (i >= those.length) return `[${i}] was not told: ${JSON.stringify(wanted[i])}`
    const miss = firstMiss(patternOf(wanted[i]!), those[i]!)
    if (miss !== undefined) return `[${i}] ${String(those[i]!.event_type)}: ${miss}`
  }
  return undefined
}

const patternOf = (pattern: Json): Json => (typeof pattern === 'string' ? { event_type: pattern } : pattern)

/** Statuses or parts of documents, what lies on the disk, what was found, what does not hold. */
async function expected(session: Session, given: Json): Promise<string | undefined> {
  for (const [what, wanted] of Object.entries(given as { [what: string]: Json })) {
    const look = LOOKS[what]
    const difference = await (look ? look(session, wanted) : documentIs(session, what, wanted))
    if (difference !== undefined) return `${what}: ${difference}`
  }
  return undefined
}

const LOOKS: { readonly [what: string]: (session: Session, wanted: Json) => Promise<string | undefined> } = {
  async steps(session, wanted) {
    const [plan] = (await session.documents('plan')) as readonly JsonObject[]
    const steps = (plan?.steps ?? []) as readonly JsonObject[]
    const found = steps.map(({ status }) => status!)
    return firstDifference(wanted, found, NOTHING)
  },
  async files(session, wanted) {
    if (!session.files) return lacks('files', ['drift', 'rollback'])
    const found = await session.files()
    for (const [path, text] of Object.entries(wanted as { [path: string]: string | null }))
      if ((found[path] ?? null) !== text)
        return `${path} must be ${JSON.stringify(text)}, found ${JSON.stringify(found[path] ?? null)}`
    return undefined
  },
  async findings(session, wanted) {
    if (!session.scan) return lacks('scan', ['drift'])
    const found = await session.scan()
    return firstDifference(wanted, [...found].sort((a, b) => (a.path < b.path ? -1 : 1)) as unknown as Json, NOTHING)
  },
  async breaches(session, wanted) {
    if (!session.breaches) return lacks('breaches', ['invariants'])
    const found = await session.breaches()
    return firstDifference([...(wanted as string[])].sort(), [...found].sort(), NOTHING)
  },
}
const NOTHING: ReadonlySet<string> = new Set()

/** `plan` is the oldest plan, `plan-2` the next. */
async function documentIs(session: Session, name: string, wanted: Json): Promise<string | undefined> {
  const document = (await session.documents(kindOfFile(name)!))[placeOfFile(name)]
  if (document === undefined) return wanted === null ? undefined : 'there is none'
  if (wanted === null) return 'there is one'
  return firstMiss(isObject(wanted) ? (wanted as Json) : { status: wanted }, document)
}
