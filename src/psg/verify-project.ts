import { Corrupt, NotFound } from '../protocol/errors.ts'
import { method, refuseUnlessFit, signal, texts } from '../protocol/fields.ts'
import type { Backend } from '../vsl/backend.ts'
import type { Finding } from './finding.ts'
import { type IndexRows, indexRows, NOWHERE } from './index-rows.ts'
import { INDEX, isTooLong } from './indexes.ts'
import { reindexGraph } from './reindex.ts'
import { verifyGraph } from './verify.ts'
import { findingOf, type IndexFault, strayFaults } from './verify-indexes.ts'

export interface VerifyOptions {
  /** Only these; all of them, and the project's own graph, when absent. Throws NotFound. */
  readonly contexts?: readonly string[]
  readonly onProgress?: (done: number, of: number) => void
  /** Ends it between two graphs, with the signal's reason: half a proof is none. */
  readonly signal?: AbortSignal
}

export interface Verified {
  /** How many contexts were looked at. */
  readonly contexts: number
  readonly findings: readonly Finding[]
}

/**
 * Proves graph after graph from the store alone, and what of the indexes leads to none. The indexes of the store are read once for all of them. A store
 * that has lost the id of its project is proved as far as the indexes lead.
 */
export async function verifyProject(
  store: Backend,
  project: string | undefined,
  options: VerifyOptions = {},
): Promise<Verified> {
  const findings: Finding[] = []
  const { contexts, strays } = await eachGraph(store, project, options, async (graph, rows) => {
    for (const finding of await verifyGraph(store, graph, rows)) findings.push(finding) // there may be more than a call takes arguments
  })
  if (!options.contexts) findings.push(...(await unreadableOwn(store)))
  return { contexts, findings: [...findings, ...without(strays, findings).map(findingOf)] }
}

/** The first of the callers' own values that cannot be read, which would end a copy of the store too. What they say is theirs. */
async function unreadableOwn(store: Backend): Promise<readonly Finding[]> {
  try {
    for await (const _ of store.scan('', { own: true }));
    return []
  } catch (error) {
    if (!(error instanceof Corrupt)) throw error
    return [{ rule: 'value.form', node: '-', message: error.message }]
  }
}

/** Whose a row should be is told with its graph. */
function without(strays: readonly IndexFault[], findings: readonly Finding[]): readonly IndexFault[] {
  const told = new Set(findings.map(({ node }) => node))
  return strays.filter(({ key }) => !told.has(key))
}

export interface Reindexed extends Verified {
  /** What was wrong with the indexes, and is no more; the other findings are left as they are. */
  readonly mended: readonly Finding[]
}

/**
 * Makes the indexes of graph after graph tell what its values say, as those of an older version may not, or of a store that was damaged. What is wrong
 * with journal or values is found and left, and so are the indexes of such a graph: they would be made from what is not true.
 */
export async function reindexProject(store: Backend, project: string, options: VerifyOptions = {}): Promise<Reindexed> {
  const findings: Finding[] = []
  const mended: Finding[] = []
  const { contexts, strays } = await eachGraph(store, project, options, async (graph, rows) => {
    const done = await reindexGraph(store, graph, rows)
    for (const finding of done.findings) findings.push(finding)
    for (const finding of done.mended) mended.push(finding)
  })
  const left = without(strays, [...findings, ...mended])
  if (left.length > 0) {
    const { revision: expected } = await store.head(project)
    await store.commit({ stream: project, expected, inserts: [], puts: [], deletes: left.map(({ key }) => key) })
  }
  return { contexts, findings, mended: [...mended, ...left.map(findingOf)] }
}

/** Answers with how many of them are contexts, and with the rows that lead to none. */
async function eachGraph(
  store: Backend,
  project: string | undefined,
  options: VerifyOptions,
  look: (graph: string, rows: IndexRows) => Promise<void>,
): Promise<{ readonly contexts: number; readonly strays: readonly IndexFault[] }> {
  refuseUnlessFit('verify options', options, { contexts: texts, onProgress: method, signal })
  const rows = await indexRows(store)
  const { contexts: named } = options
  const graphs = new Set(named ?? [...(await everyContext(store)), ...rows.keys()]) // a context whose own row is gone has others
  if (!named) for (const other of [NOWHERE, project]) if (other !== undefined) graphs.delete(other)
  if (!named && project !== undefined) await look(project, rows)
  let done = 0
  for (const graph of graphs) {
    options.signal?.throwIfAborted()
    options.onProgress?.(++done, graphs.size)
    if (named && (isTooLong(graph) || (await store.head(graph)).revision === 0)) throw new NotFound('context', graph)
    await look(graph, rows)
  }
  return { contexts: graphs.size, strays: named ? [] : await strayFaults(store, rows.get(NOWHERE) ?? []) }
}

export async function everyContext(store: Backend): Promise<readonly string[]> {
  const prefix = INDEX.id('context', '')
  const contexts: string[] = []
  for await (const [key] of store.scan(prefix)) contexts.push(key.slice(prefix.length))
  return contexts
}
