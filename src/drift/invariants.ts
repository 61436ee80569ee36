import { isoNow } from '../protocol/clock.ts'
import { type Field, method, refuseUnlessFit } from '../protocol/fields.ts'
import { mapInvariants, saInvariants } from '../protocol/invariant-rules.ts'
import { type Breach, checkInvariants, type Invariant, type Subjects } from '../protocol/invariants.ts'
import { digestOfJson } from '../protocol/json.ts'
import { reporter } from '../protocol/reporter.ts'
import type { EntryBody, FindingRecord } from '../psg/change.ts'
import { isMove } from '../psg/field-change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { isKind, placeOf } from '../psg/node.ts'
import { runUnderWay } from '../psg/view.ts'
import { serially } from '../vsl/serially.ts'
import { checkGraph } from './check-input.ts'
import { fileId } from './compare.ts'
import { becoming, commitTo, FINDINGS } from './desk.ts'
import { follow } from './follow.ts'
import { aSeverity, type Severity } from './policy.ts'

export interface InvariantOptions {
  /** `high` when absent: the protocol gives them none. */
  readonly severity?: Severity
  readonly onBreach?: (news: readonly FindingRecord[]) => void
  readonly onError?: (error: unknown) => void
}

export interface InvariantWatch {
  /** What does not hold now. */
  breaches(): readonly FindingRecord[]
  /** Checks everything that runs, whatever has changed. */
  check(): Promise<readonly FindingRecord[]>
  /** Safe to call twice. */
  close(): Promise<void>
}

/**
 * Re-checks the protocol's invariants whenever the graph changes: those of a single agent for every plan under way and its context and trace, those of
 * several for every session. What does not hold is a finding until it does again.
 */
export async function watchInvariants(graph: ProjectGraph, options: InvariantOptions = {}): Promise<InvariantWatch> {
  checkGraph(graph)
  refuseUnlessFit('invariant options', options, OPTIONS)
  const onError = reporter(options.onError ?? (() => undefined))
  const stop = new AbortController()
  const recorded = () => [...recordedIn(graph)]
  const inTurn = serially()

  const check = (subjects: readonly Subject[]): Promise<void> =>
    inTurn(async () => {
      const news: FindingRecord[] = []
      for (const subject of subjects) news.push(...(await recheck(graph, subject, options.severity ?? 'high')))
      if (news.length > 0) options.onBreach?.(news)
    })

  await graph.load(FINDINGS)
  const from = graph.revision
  const everything = () => [...subjectsOf(graph), ...recorded().map(({ breach }) => subjectNamed(String(breach?.of)))]
  await check(everything())
  const following = follow(graph, { after: from, signal: stop.signal, clock: graph.clock, onError }, async (body) =>
    check(touched(graph, body)),
  )

  return {
    breaches: recorded,
    async check() {
      await check(everything())
      return recorded()
    },
    async close() {
      stop.abort()
      await following
      await inTurn(async () => undefined)
    },
  }
}

const OPTIONS: { readonly [O in keyof Required<InvariantOptions>]: Field } = {
  severity: aSeverity,
  onBreach: method,
  onError: method,
}

/** What invariants are about: a plan under way, with its context and its trace, or a session. */
interface Subject {
  readonly kind: 'plan' | 'collab'
  readonly id: string
}
const subjectNamed = (name: string): Subject => {
  const [kind, id] = name.split('/')
  return { kind: kind as Subject['kind'], id: id! }
}

function* subjectsOf(graph: ProjectGraph): Iterable<Subject> {
  for (const { data } of graph.state.activeRuns()) yield { kind: 'plan', id: data.plan_id }
  for (const node of graph.state.nodes()) if (isKind(node, 'collab')) yield { kind: 'collab', id: node.id }
}

/** Whom an entry concerns. A step that only moves on concerns nobody: that is what a plan is for. */
function touched(graph: ProjectGraph, { changes }: EntryBody): readonly Subject[] {
  const found = new Map<string, Subject>()
  const add = (subject: Subject) => found.set(`${subject.kind}/${subject.id}`, subject)
  for (const change of changes) {
    const { group, kind, id } = placeOf(change.key)
    if (kind === 'context') for (const subject of subjectsOf(graph)) add(subject)
    else if (kind === 'plan' || kind === 'trace' || kind === 'run' || (kind === 'step' && !isMove(change)))
      add({ kind: 'plan', id: group })
    else if (kind === 'collab' || kind === 'participant') add({ kind: 'collab', id: kind === 'collab' ? id : group })
  }
  return [...found.values()]
}

async function recheck(graph: ProjectGraph, subject: Subject, severity: Severity): Promise<readonly FindingRecord[]> {
  await graph.load(FINDINGS)
  const of = `${subject.kind}/${subject.id}`
  const breaches = new Map((await breachesOf(graph, subject)).map((breach) => [idOf(of, breach), breach]))
  const before = [...recordedIn(graph)].filter(({ breach }) => breach?.of === of)
  const over = before.filter(({ finding_id }) => !breaches.has(finding_id))
  const news = [...breaches]
    .filter(([id]) => !before.some(({ finding_id }) => finding_id === id))
    .map(([id, breach]) => recordOf(id, of, breach, severity, graph))
  if (over.length + news.length === 0) return []
  const changing = () => [
    ...over.flatMap(({ finding_id }) => becoming({ graph }, 'finding', finding_id, null)),
    ...news.flatMap((record) => becoming({ graph }, 'finding', record.finding_id, record)),
  ]
  const reason = news[0] ? String(news[0].breach?.message) : 'an invariant holds again'
  await commitTo(graph, [FINDINGS], changing, reason)
  return news
}

async function breachesOf(graph: ProjectGraph, { kind, id }: Subject): Promise<readonly Breach[]> {
  if (kind === 'collab') {
    if (!(await graph.find('collab', id))) return []
    return checkInvariants(standing(mapInvariants), { collab: await graph.document('collab', id) })
  }
  const plan = await graph.find('plan', id)
  if (plan?.data.status !== 'in_progress') return []
  const run = runUnderWay(graph.state, id)
  const trace = run && graph.get('trace', run.data.trace_id)
  // The head of the trace is enough: its list of events is a fold of the journal, and is complete only when the run is.
  const { events: _, ...head } = trace?.data ?? { events: undefined }
  const subjects: Subjects = {
    context: await graph.document('context', graph.id),
    plan: await graph.document('plan', id),
    ...(trace && { trace: head }),
  }
  return checkInvariants(standing(saInvariants), subjects)
}

/** Those that must hold at any time: what speaks of a whole list of events can be judged at its end only. */
const standing = (invariants: readonly Invariant[]): readonly Invariant[] =>
  invariants.filter((invariant) => !('events' in invariant))

function* recordedIn(graph: ProjectGraph): Iterable<FindingRecord> {
  for (const node of graph.state.nodesOf(FINDINGS))
    if (isKind(node, 'finding') && node.data.what === 'invariant') yield node.data
}

const idOf = (of: string, { id, path }: Breach): string => fileId(`invariant/${of}/${id}/${path}`)

function recordOf(id: string, of: string, breach: Breach, severity: Severity, { clock }: ProjectGraph): FindingRecord {
  const { path, rule, message, found } = breach
  return {
    finding_id: id,
    what: 'invariant',
    path,
    severity,
    found_at: isoNow(clock),
    digest: digestOfJson({ of, invariant: breach.id, path, found }),
    breach: { of, invariant: breach.id, rule, message: `${path} ${message}`, found },
  }
}
