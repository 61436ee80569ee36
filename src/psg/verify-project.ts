import { NotFound } from '../protocol/errors.ts'
import { method, refuseUnlessFit, signal, texts } from '../protocol/fields.ts'
import type { Backend } from '../vsl/backend.ts'
import type { Finding } from './finding.ts'
import { type IndexRows, indexRows } from './index-rows.ts'
import { INDEX } from './indexes.ts'
import { reindexGraph } from './reindex.ts'
import { verifyGraph } from './verify.ts'

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

/** Proves graph after graph from the store alone. The indexes of the store are read once for all of them. */
export async function verifyProject(store: Backend, project: string, options: VerifyOptions = {}): Promise<Verified> {
  const findings: Finding[] = []
  const contexts = await eachGraph(store, project, options, async (graph, rows) => {
    findings.push(...(await verifyGraph(store, graph, rows)))
  })
  return { contexts, findings }
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
  const contexts = await eachGraph(store, project, options, async (graph, rows) => {
    const done = await reindexGraph(store, graph, rows)
    findings.push(...done.findings)
    mended.push(...done.mended)
  })
  return { contexts, findings, mended }
}

/** Answers with how many of them are contexts. */
async function eachGraph(
  store: Backend,
  project: string,
  options: VerifyOptions,
  look: (graph: string, rows: IndexRows) => Promise<void>,
): Promise<number> {
  refuseUnlessFit('verify options', options, { contexts: texts, onProgress: method, signal })
  const contexts = new Set(options.contexts ?? (await everyContext(store)))
  const rows = await indexRows(store)
  if (!options.contexts) await look(project, rows)
  let done = 0
  for (const context of contexts) {
    options.signal?.throwIfAborted()
    options.onProgress?.(++done, contexts.size)
    if ((await store.head(context)).revision === 0) throw new NotFound('context', context)
    await look(context, rows)
  }
  return contexts.size
}

export async function everyContext(store: Backend): Promise<readonly string[]> {
  const prefix = INDEX.id('context', '')
  const contexts: string[] = []
  for await (const [key] of store.scan(prefix)) contexts.push(key.slice(prefix.length))
  return contexts
}
