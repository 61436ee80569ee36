import {
  clock,
  type Field,
  type Fields,
  flag,
  having,
  method,
  needed,
  refuseUnlessFit,
  uuid,
  wholeFrom,
} from '../protocol/fields.ts'
import { store as storeField } from '../vsl/check-options.ts'
import type { GraphOptions } from './graph.ts'
import type { ProjectOptions } from './project.ts'

/** Throws InvalidInput for what no graph can be opened with. */
export const checkGraphOptions = (store: unknown, options: unknown): void => refuse('graph', store, options, GRAPH)

/** Throws InvalidInput for what no project can be opened with. */
export const checkProjectOptions = (store: unknown, options: unknown): void =>
  refuse('project', store, options, PROJECT)

const SHARED: { readonly [O in keyof Required<Omit<GraphOptions, 'project_id' | 'roles'>>]: Field } = {
  clock,
  keepEnded: wholeFrom(0),
  mostTrailing: wholeFrom(0),
  onCommit: method,
  onError: method,
  switched: having('a set', 'has'),
}
const GRAPH: { readonly [O in keyof Required<GraphOptions>]: Field } = {
  ...SHARED,
  project_id: uuid,
  roles: having('who knows the roles: has, refresh', 'has', 'refresh'),
}
const PROJECT: { readonly [O in keyof Required<ProjectOptions>]: Field } = { ...SHARED, strict: flag }
const STORE: Fields = { store: needed(storeField) }

/** A graph, by what everybody asks of it. */
export const aGraph = having('a graph, as openGraph opens them', 'get', 'commit', 'reading', 'load')

function refuse(what: string, store: unknown, options: unknown, fields: Fields): void {
  refuseUnlessFit(what, { store }, STORE)
  refuseUnlessFit(what, options, fields)
}
