import { NotFound } from '../protocol/errors.ts'
import { method, refuseUnlessFit, signal, texts } from '../protocol/fields.ts'
import type { Backend } from '../vsl/backend.ts'
import type { Finding } from './finding.ts'
import { indexRows } from './index-rows.ts'
import { INDEX } from './indexes.ts'
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
  refuseUnlessFit('verify options', options, { contexts: texts, onProgress: method, signal })
  const contexts = new Set(options.contexts ?? (await everyContext(store)))
  const rows = await indexRows(store)
  const findings: Finding[] = []
  if (!options.contexts) findings.push(...(await verifyGraph(store, project, rows)))
  let done = 0
  for (const context of contexts) {
    options.signal?.throwIfAborted()
    options.onProgress?.(++done, contexts.size)
    if ((await store.head(context)).revision === 0) throw new NotFound('context', context)
    findings.push(...(await verifyGraph(store, context, rows)))
  }
  return { contexts: contexts.size, findings }
}

async function everyContext(store: Backend): Promise<readonly string[]> {
  const prefix = INDEX.id('context', '')
  const contexts: string[] = []
  for await (const [key] of store.scan(prefix)) contexts.push(key.slice(prefix.length))
  return contexts
}
