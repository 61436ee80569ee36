import { InvalidInput } from '../protocol/errors.ts'
import type { JsonObject } from '../protocol/json.ts'
import { problem } from '../protocol/problem.ts'
import type { Change, Commit, CommitOptions } from './change.ts'
import { type DocumentKind, takeApart } from './document.ts'
import type { ProjectGraph } from './graph.ts'
import { checkOptions } from './input.ts'
import { KINDS } from './kinds.ts'
import type { Project } from './project.ts'

/** Documents, each with its kind. */
export type Documents = readonly (readonly [DocumentKind, unknown])[]

/** Takes documents in as they stand, as `import` of the project promises. */
export async function importDocuments(
  { graph, opening, locate }: Pick<Project, 'graph' | 'opening' | 'locate'>,
  documents: Documents,
  options: CommitOptions & { readonly context?: string },
): Promise<{ graph: ProjectGraph; commits: readonly Commit[] }> {
  checkOptions(options)
  const { context, ...commit } = options
  const parts = apart(documents)
  const mine = parts.filter(({ kind }) => KINDS[kind].project).flatMap(({ changes }) => changes)
  const rest = parts.filter(({ kind }) => !KINDS[kind].project).flatMap(({ changes }) => changes)
  const target = rest.length === 0 ? graph : await opening(await contextOf(rest, context, locate))
  const writes = [
    { to: graph, changes: mine },
    { to: target, changes: rest },
  ].filter(({ changes }) => changes.length > 0)
  for (const { to, changes } of writes) await to.check(changes, commit) // or half of them would be left behind
  const made = rest.some((change) => change.kind === 'node_add' && change.node === 'context')
  // Not everything names its context, and a graph without one is found by nobody.
  if (target !== graph && !made) await target.require('context', target.id)
  const commits: Commit[] = []
  for (const { to, changes } of writes) commits.push(await to.commit(changes, commit))
  return { graph: target, commits }
}

function apart(documents: Documents): readonly { kind: DocumentKind; changes: readonly Change[] }[] {
  const pairs: unknown = documents
  if (!Array.isArray(pairs) || pairs.length === 0 || !pairs.every((pair) => Array.isArray(pair)))
    throw notImportable('', 'pairs', 'are not pairs of a kind and a document', documents)
  return documents.map(([kind, document]) => ({ kind, changes: takeApart(kind, document, { imported: true }) }))
}

/** The one context that a set of documents belongs to: the one they name, or that of what a Confirm asks about, or the one given. */
async function contextOf(
  changes: readonly Change[],
  given: string | undefined,
  locate: Project['locate'],
): Promise<string> {
  const named = new Set<string>()
  for (const change of changes) {
    const context = change.kind === 'node_add' ? (change.data as JsonObject).context_id : undefined
    if (typeof context === 'string') named.add(context)
  }
  if (given !== undefined) named.add(given)
  if (named.size === 0)
    for (const change of changes)
      if (change.kind === 'node_add' && change.node === 'confirm') {
        const where = await locate(change.data.target_id)
        if (where) named.add(where.graph)
      }
  const [context] = named
  if (context === undefined || named.size > 1)
    throw notImportable(
      'context_id',
      'one_context',
      context === undefined ? 'name no context: say which' : `name ${named.size} contexts: import one at a time`,
      context,
    )
  return context
}

const notImportable = (path: string, rule: string, message: string, found: unknown): InvalidInput =>
  new InvalidInput('documents', [problem(path, rule, message, found)])
