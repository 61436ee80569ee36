import type { Edge } from './state.ts'

/**
 * Edges of a node on one side. Most nodes have a few, which take a quarter of a set's memory as a list; of the thousands that a hub has, a list could
 * not give up one cheaply.
 */
export type Edges = readonly Edge[] | Set<Edge> | undefined

const MOST_LISTED = 6

export function withEdge(edges: Edges, edge: Edge): Edges {
  if (edges === undefined) return [edge]
  if (edges instanceof Set) return edges.add(edge)
  return edges.length < MOST_LISTED ? edges.concat([edge]) : new Set(edges).add(edge)
}

export function withoutEdge(edges: Edges, edge: Edge): Edges {
  if (!(edges instanceof Set)) return edges?.filter((one) => one !== edge)
  edges.delete(edge)
  return edges
}
