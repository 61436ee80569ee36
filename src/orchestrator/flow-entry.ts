import { InvalidInput, NotFound, type Problem, RuleViolation } from '../protocol/errors.ts'
import { firstOf } from '../protocol/first-of.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { Change, EventDraft } from '../psg/change.ts'
import { type DocumentKind, takeApart } from '../psg/document.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { insist } from '../psg/insist.ts'
import { KINDS } from '../psg/kinds.ts'
import type { Project } from '../psg/project.ts'
import { eventsIn } from '../psg/told.ts'
import { FlowFailure } from './flow.ts'
import type { FlowEvents } from './flow-events.ts'
import type { FlowRecord } from './flow-record.ts'
import { documentsIn } from './flow-speech.ts'

export interface Entering {
  readonly project: Project
  readonly record: FlowRecord
  readonly events: FlowEvents
  /** The flow's context, once somebody has named it. */
  readonly context: string | undefined
  /** Said in an earlier call: it may have been entered already. */
  readonly again: boolean
}

/** Brings what a module said into the graph: its documents and events in one commit under its name, or nothing if that has happened before. */
export async function enter(module: string, name: string, entering: Entering): Promise<void> {
  const { project, record, events, again } = entering
  const { output, events: drafts } = record.memory.said[name]!
  const documents = isHeld(module) ? [] : documentsIn(module, output)
  const graph = await homeOf(module, documents[0], entering).catch((error) => unentered(error, module, name, record))
  events.follow(graph.id, record.memory.from[graph.id] ?? graph.revision)
  const changes = await missing(module, documents, project)
  if (changes.length === 0 && (drafts.length === 0 || (again && (await wasTold(graph, drafts[0]!, record))))) return
  const { run } = record.memory.ids
  try {
    await insist(graph, changes, { actor: module, reason: `module ${module} spoke`, module, run, events: drafts })
  } catch (error) {
    const others = error instanceof RuleViolation && (await missing(module, documents, project)).length < changes.length
    if (others) return enter(module, name, { ...entering, again: true }) // somebody else brought the same
    return unentered(error, module, name, record)
  }
}

/** What does not fit is not remembered, so that the next call asks for it again. */
async function unentered(error: unknown, module: string, name: string, record: FlowRecord): Promise<never> {
  const failure = unfit(error, `what module ${module} said`)
  if (failure !== error) await forget(record, name)
  throw failure
}

/** These are not written when they are said: submitting the plan writes them, all together. */
const isHeld = (module: string): boolean => module === 'plan' || module === 'confirm' || module === 'trace'

/** The graph that a module's documents, or at least its events, belong to. */
export async function homeOf(
  module: string,
  document: JsonObject | undefined,
  { project, context }: Pick<Entering, 'project' | 'context'>,
): Promise<ProjectGraph> {
  if (Object.hasOwn(KINDS, module) && KINDS[module as DocumentKind].project) return project.graph
  const named = (isHeld(module) ? undefined : document?.context_id) ?? context
  if (typeof named !== 'string') return project.graph
  return module === 'context' ? project.opening(named) : project.context(named)
}

/** The module is asked again by the next call. */
export async function forget(record: FlowRecord, ...names: readonly string[]): Promise<void> {
  const said = { ...record.memory.said }
  for (const name of names) delete said[name]
  await record.keep({ said })
}

/** A refusal by schema or rules as the flow's failure; anything else as it is. */
export function unfit(error: unknown, what: string): unknown {
  const problems = problemsOf(error)
  if (!problems) return error
  const message = `${what} does not fit: ${(error as Error).message}`
  return new FlowFailure('INVALID_OUTPUT', message, { problems }, { cause: error })
}

function problemsOf(error: unknown): readonly Problem[] | undefined {
  if (error instanceof InvalidInput) return error.problems
  if (error instanceof NotFound) return [{ path: error.what, rule: 'reference.resolves', message: error.message }]
  if (!(error instanceof RuleViolation)) return undefined
  const all = error.violations.map(({ rule, node, path, message }) => {
    return { path: path === '' ? node : `${node}.${path}`, rule, message }
  })
  return firstOf(all)
}

/** What adds the documents that are not there yet. */
async function missing(module: string, documents: readonly JsonObject[], project: Project): Promise<readonly Change[]> {
  const kind = module as DocumentKind
  const changes: Change[] = []
  for (const document of documents) {
    const where = await project.locate(String(document[KINDS[kind].idField!]), kind)
    if (where?.kind !== kind) for (const change of takeApart(kind, document)) changes.push(change)
  }
  return changes
}

async function wasTold(graph: ProjectGraph, { event_id }: EventDraft, record: FlowRecord): Promise<boolean> {
  for await (const entry of graph.store.read(graph.id, { after: record.memory.from[graph.id] ?? 0 }))
    if (eventsIn(entry).some((born) => born.event.event_id === event_id)) return true
  return false
}
