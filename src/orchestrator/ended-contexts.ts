import { NotFound } from '../protocol/errors.ts'
import type { EntryBody, EntryChange, Run, Stored } from '../psg/change.ts'
import { isFieldChange, takeOn } from '../psg/field-change.ts'
import { graphIn } from '../psg/index-rows.ts'
import { INDEX, type Whereabouts } from '../psg/indexes.ts'
import { KINDS } from '../psg/kinds.ts'
import { groupIn, placeOf } from '../psg/node.ts'
import { POSITIONS, type Position } from '../vsl/backend.ts'
import type { Source } from '../vsl/copy.ts'

/** What a context's journal says of whether it has ended. */
export interface Signs {
  /** When it was written to last, and where that stands. */
  at: string
  position: Position
  files: boolean
  readonly own: Map<string, Stored>
  /** The runs whose children are here. */
  readonly parents: Set<string>
}

/** What is told by one entry more; `signs` is absent before the first. */
export function further(signs: Signs | undefined, { at, changes }: EntryBody, position: Position): Signs {
  const on = signs ?? { at, position, files: false, own: new Map(), parents: new Set() }
  Object.assign(on, { at, position })
  for (const change of changes) {
    if (groupIn(change.key) === KINDS.file.group) on.files = true
    const { kind } = placeOf(change.key)
    if (kind === 'context') takeOn(on.own, change)
    const parent = kind === 'run' ? parentIn(change) : undefined
    if (parent !== undefined) on.parents.add(parent)
  }
  return on
}

/** The run whose child is born with a change, if one is. */
const parentIn = (change: EntryChange): string | undefined =>
  isFieldChange(change) ? undefined : (change.after?.data as Run | undefined)?.parent?.run_id

/** What somebody may yet begin, or has stopped to go on with later. */
const UNENDED: ReadonlySet<unknown> = new Set(['draft', 'suspended'])

/** Has a context ended before a time, by its signs, and by what is open in the store? Not by what is asked there. */
export async function contextHasEnded(store: Source, graph: string, signs: Signs, before: string): Promise<boolean> {
  const [context] = signs.own.values()
  if (!context || UNENDED.has(context.data.status) || signs.files) return false
  if (Date.parse(signs.at) >= Date.parse(before)) return false
  return !(await holdsOpen(store, graph)) && !(await goesOn(store, signs.parents))
}

/** Is somebody asked in a context, by all that it holds? */
export const isAsking = (stored: ReadonlyMap<string, Stored>): boolean =>
  [...stored].some(
    ([key, value]) => !value.deleted && placeOf(key).kind === 'confirm' && value.data.status === 'pending',
  )

/** The contexts in which somebody is asked. */
export async function graphsAsking(store: Source): Promise<ReadonlySet<string | undefined>> {
  const asking = new Set<string | undefined>()
  for await (const [, row] of store.scan(INDEX.waiting(''))) asking.add(graphIn(row))
  return asking
}

export async function holdsOpen(store: Source, graph: string): Promise<boolean> {
  for await (const _ of store.scan(INDEX.open(graph, ''), { limit: 1 })) return true
  return false
}

async function goesOn(store: Source, runs: ReadonlySet<string>): Promise<boolean> {
  if (runs.size === 0) return false
  const found = await store.getMany([...runs].map((run) => INDEX.id('run', run)))
  const places = [...found.values()].map((where) => where as Whereabouts)
  return (await store.getMany(places.map(({ graph, group }) => INDEX.open(graph, group)))).size > 0
}

/** A bus, and how far it was told. */
export type ToldBus = readonly [name: string, told: Position]

/** Those that are told of a store, without some. Throws NotFound for one of these that has no position here. */
export async function busesIn(store: Source, forgotten: readonly string[]): Promise<readonly ToldBus[]> {
  const buses: ToldBus[] = []
  for await (const [key, position] of store.scan(POSITIONS))
    buses.push([key.slice(POSITIONS.length), position as Position])
  for (const name of forgotten)
    if (!buses.some(([known]) => known === name))
      throw new NotFound('bus', name, `there are ${buses.map(([known]) => known).join(', ') || 'none'}`)
  return buses.filter(([name]) => !forgotten.includes(name))
}

/** Those that have not been told all of it. */
export const untoldOf = (buses: readonly ToldBus[], { position }: Signs): readonly string[] =>
  buses.filter(([, told]) => told < position).map(([name]) => name)
