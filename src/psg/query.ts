import { InvalidInput } from '../protocol/errors.ts'
import { anything, type Field, problemsIn } from '../protocol/fields.ts'
import { canonical, isObject, type Json } from '../protocol/json.ts'
import { valueAt } from '../protocol/paths.ts'
import { blaming } from '../protocol/problem.ts'
import type { Backend } from '../vsl/backend.ts'
import { byBytes } from '../vsl/sorted-keys.ts'
import type { AnyNode, Kind, NodeOf, Stored } from './change.ts'
import { isKindName } from './input.ts'
import { fromStored, placeOf } from './node.ts'
import { plain } from './plain.ts'
import type { GraphState } from './state.ts'

export interface Query<K extends Kind> {
  readonly kind: K
  /** Fields, dotted for inner ones, and the value each must have. */
  readonly where?: { readonly [field: string]: Json }
  readonly after?: string
  readonly limit?: number
}
export interface Page<K extends Kind> {
  readonly nodes: readonly NodeOf<K>[]
  /** Give it as `after` to read on; absent on the last page. */
  readonly next?: string
}

const LIMIT = 100

/** Loaded nodes of a kind with these fields, by id, page by page. */
export function query<K extends Kind>(state: GraphState, asked: Query<K>): Page<K> {
  checkQuery(asked)
  const { after, limit = LIMIT } = asked
  const fits = conditionOf(asked)
  const found: NodeOf<K>[] = []
  for (const node of state.nodes())
    if (fits(node) && (after === undefined || node.id > after)) found.push(node as NodeOf<K>)
  found.sort((a, b) => (a.id < b.id ? -1 : 1))
  const nodes = found.slice(0, limit)
  return found.length > limit ? { nodes, next: nodes.at(-1)!.id } : { nodes }
}

/**
 * The same of everything in the store, group by group: what has ended long ago is found without being loaded. `trailing` holds values that the
 * store does not have yet.
 */
export async function queryStore<K extends Kind>(
  store: Backend,
  graph: string,
  asked: Query<K>,
  trailing: readonly (readonly [string, Stored])[],
): Promise<Page<K>> {
  checkQuery(asked)
  const { after, limit = LIMIT } = asked
  const prefix = `${graph}/`
  const fits = conditionOf(asked)
  const nodes: NodeOf<K>[] = []
  let last = ''
  const from = after === undefined ? {} : { after: prefix + after }
  const isWanted = (key: string) => placeOf(key).kind === asked.kind
  const newer = trailing.filter(([key]) => isWanted(key) && (from.after === undefined || byBytes(key, from.after) > 0))
  for await (const [key, value] of merged(store.scan(prefix, from) as AsyncIterable<[string, Stored]>, newer)) {
    if (!isWanted(key) || value.deleted) continue
    const node = fromStored(key, value)
    if (!fits(node)) continue
    if (nodes.length === limit) return { nodes, next: last }
    nodes.push(node as NodeOf<K>)
    last = key.slice(prefix.length)
  }
  return { nodes }
}

/** Values in the order of their keys, the newer ones instead of the older. */
async function* merged(
  older: AsyncIterable<readonly [string, Stored]>,
  newer: readonly (readonly [string, Stored])[],
): AsyncIterable<readonly [string, Stored]> {
  const sorted = newer.toSorted(([a], [b]) => byBytes(a, b))
  let at = 0
  for await (const value of older) {
    while (at < sorted.length && byBytes(sorted[at]![0], value[0]) < 0) yield sorted[at++]!
    yield sorted[at]?.[0] === value[0] ? sorted[at++]! : value
  }
  yield* sorted.slice(at)
}

function conditionOf({ kind, where = {} }: Query<Kind>): (node: AnyNode) => boolean {
  const wanted = Object.entries(where).map(([field, value]) => [field.split('.'), canonical(value)] as const)
  return (node) =>
    node.kind === kind &&
    wanted.every(([field, value]) => {
      const found = valueAt(node.data, field) as Json | undefined
      return found !== undefined && canonical(found) === value
    })
}

/** A condition under a name that nobody knows would let everything through. */
const ASKED: { readonly [O in keyof Required<Query<Kind>>]: Field } = {
  ...{ kind: anything, where: anything, after: anything, limit: anything },
}

function checkQuery(asked: Query<Kind>): void {
  const { kind, where, after, limit = LIMIT } = Object(asked) as Query<Kind>
  const problems = [...problemsIn(asked, ASKED, '')]
  const refuse = blaming(problems)
  if (!isKindName(kind)) refuse('kind', 'enum', 'is not a kind of node', kind)
  if (where !== undefined && !isObject(where)) refuse('where', 'type', 'is not an object', where)
  if (after !== undefined && typeof after !== 'string') refuse('after', 'type', 'is not a place to go on from', after)
  if (!Number.isSafeInteger(limit) || limit < 1) refuse('limit', 'minimum', 'must be a whole number above 0', limit)
  if (problems.length > 0) throw new InvalidInput('query', problems)
  plain(where ?? {}, 'where', 'query')
}
