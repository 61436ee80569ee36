import type { Clock } from '../../protocol/clock.ts'
import { InvalidInput, NotFound, type Problem } from '../../protocol/errors.ts'
import { type Fields, list, needed, refuseUnlessFit, text } from '../../protocol/fields.ts'
import { isObject, type JsonObject } from '../../protocol/json.ts'
import { shown } from '../../protocol/shown.ts'
import type { CommitOptions, EventDraft, Kind } from '../../psg/change.ts'
import { DOCUMENT_KINDS, type Document, type DocumentKind } from '../../psg/document.ts'
import { ProjectGraph, type Wanted } from '../../psg/graph.ts'
import { insist } from '../../psg/insist.ts'
import { type Project, upToDate } from '../../psg/project.ts'

/**
 * A part of the protocol that looks after its own areas of the graph: for each thing that can be asked of it, a function that says which changes that
 * means. It looks and proposes; `callModule` commits, and the graph refuses changes outside of the module's areas.
 */
export interface Module {
  readonly intents: { readonly [intent: string]: Intent }
  /** An object as the module would create it, from as much of it as is given. Absent where a module creates none. */
  readonly make?: Maker
}
export type Intent = (input: JsonObject, ground: Ground) => Promise<Proposed> | Proposed
export type Maker = (given: JsonObject, ground: Pick<Ground, 'clock'>) => JsonObject

/** What a module may look at. */
export interface Ground {
  readonly project: Project
  readonly clock: Clock
}

export interface Proposed {
  readonly graph: ProjectGraph
  readonly changes: Wanted
  readonly events?: readonly EventDraft[]
  readonly reason: string
  /** The object that it is about: its document is the answer. */
  readonly about: { readonly kind: DocumentKind; readonly id: string }
}

/** Asks a module for something, commits what it proposes in its name, and answers with the object as it then stands, and where it is. */
export async function callModule(
  name: string,
  module: Module,
  input: unknown,
  ground: Ground,
  by: Partial<Pick<CommitOptions, 'actor' | 'reason'>> = {},
): Promise<{ readonly document: Document; readonly graph: string }> {
  if (!isObject(input)) throw refused([{ path: '', rule: 'type', message: 'must be an object', found: shown(input) }])
  const { intent, ...rest } = input
  const known = Object.keys(module.intents)
  if (typeof intent !== 'string' || !known.includes(intent))
    throw refused([
      { path: 'intent', rule: 'enum', message: `must be one of ${known.join(', ')}`, found: shown(intent) },
    ])
  for (;;) {
    const proposed: unknown = await module.intents[intent]!(rest as JsonObject, ground)
    refuseUnlessFit(`what module ${name} proposes for ${intent}`, proposed, PROPOSED)
    const { graph, changes, events = [], reason, about } = proposed as Proposed
    try {
      await insist(graph, changes, { actor: name, reason, ...by, module: name, events })
    } catch (error) {
      if (error instanceof Overtaken) continue
      throw error
    }
    return { document: await graph.document(about.kind, about.id), graph: graph.id }
  }
}

/** Thrown by changes that others have overtaken, so that what is to be told of them is no longer true: the intent is asked again. */
export class Overtaken extends Error {}

const isChanges = (value: unknown): boolean => typeof value === 'function' || Array.isArray(value)
const isAbout = (value: unknown): boolean =>
  isObject(value) && DOCUMENT_KINDS.includes(value.kind as DocumentKind) && text.fits(value.id)

/** Checked before the commit: whoever asks for an object that the module does not name would be refused what had been done already. */
const PROPOSED: Fields = {
  graph: needed({ says: 'a graph of the project', fits: (value) => value instanceof ProjectGraph }),
  changes: needed({ says: 'a list of changes, or a function that gives one', fits: isChanges }),
  events: list,
  reason: needed(text),
  about: needed({ says: 'the kind and the id of an object', fits: isAbout }),
}

/** What is wrong with a would-be module, if anything is. */
export function moduleProblem(module: unknown): string | undefined {
  if (!isObject(module) || !isObject(module.intents)) return 'must have intents'
  const wrong = Object.entries(module.intents).find(([, intent]) => typeof intent !== 'function')
  return wrong && `must have a function as its intent ${wrong[0]}`
}

/** The graph that holds an object, with the object in memory. Throws NotFound. */
export async function graphOf(kind: Kind, id: string, { project }: Ground): Promise<ProjectGraph> {
  const where = await project.locate(id, kind)
  if (where?.kind !== kind) throw new NotFound(kind, id)
  const graph = await upToDate(project, where)
  await graph.require(kind, id)
  return graph
}

/** A field that must be text. */
export function textOf(input: JsonObject, field: string): string {
  const value = input[field]
  if (typeof value === 'string' && value !== '') return value
  throw refused([{ path: field, rule: 'type', message: 'must be text', found: shown(value) }])
}

/** The id of a part of an object. Throws unless the object has it: what is asked of one must not change another. */
export function partOf(
  graph: ProjectGraph,
  input: JsonObject,
  field: string,
  { kind, owner }: { readonly kind: Kind; readonly owner: string },
): string {
  const id = textOf(input, field)
  if (graph.get(kind, id)?.owner === owner) return id
  throw refused([{ path: field, rule: 'reference.resolves', message: `is no ${kind} of ${owner}`, found: shown(id) }])
}

/** Throws unless the input holds nothing but these fields. */
export function onlyFields(input: JsonObject, fields: readonly string[]): void {
  const problems: Problem[] = Object.keys(input)
    .filter((field) => !fields.includes(field))
    .map((path) => ({ path, rule: 'extra_forbidden', message: `is not asked for; known are ${fields.join(', ')}` }))
  if (problems.length > 0) throw refused(problems)
}

const refused = (problems: readonly Problem[]) => new InvalidInput('module input', problems)
