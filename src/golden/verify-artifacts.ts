import { isObject, type JsonObject } from '../protocol/json.ts'
import type { Plan } from '../protocol/types.ts'
import { isValid } from '../protocol/validate.ts'
import { DOCUMENT_KINDS, type DocumentKind } from '../psg/document.ts'
import { type Found, jsonIn, type PackFiles } from './pack-files.ts'
import { told } from './verify-timeline.ts'

/** The protocol's objects: valid, complete, each there once, and referring to nothing outside of the pack. */
export function checkArtifacts(files: PackFiles, found: Found): void {
  const documents = validOnes(files, found)
  checkOnce(documents, found)
  for (const kind of ['context', 'plan', 'trace'])
    if (!files.has(`artifacts/${kind}.json`)) found('artifact.missing', `artifacts/${kind}.json`, 'is missing')
  const ids = (kind: DocumentKind) => new Set(of(documents, kind).map(({ document }) => document[`${kind}_id`]))
  const targets: { readonly [type: string]: ReadonlySet<unknown> } = {
    context: ids('context'),
    plan: ids('plan'),
    trace: ids('trace'),
    extension: ids('extension'),
  }
  const resolves = ({ path, document }: Artifact, field: string, to: ReadonlySet<unknown> | undefined) => {
    const id = document[field]
    if (to && id !== undefined && !to.has(id))
      found('artifact.reference', `${path}:${field}`, `refers to ${String(id)}, which is not in the pack`)
  }
  for (const document of documents) resolves(document, 'context_id', targets.context)
  for (const plan of of(documents, 'plan')) checkSteps(plan, found)
  for (const trace of of(documents, 'trace')) {
    resolves(trace, 'plan_id', targets.plan)
    checkTrace(trace, found)
  }
  for (const confirm of of(documents, 'confirm'))
    resolves(confirm, 'target_id', targets[String(confirm.document.target_type)])
  for (const { path, document } of of(documents, 'context'))
    if (document.status !== 'active') found('artifact.context', `${path}:status`, 'must be active')
}

interface Artifact {
  readonly path: string
  readonly kind: DocumentKind
  readonly document: JsonObject
}

const of = (documents: readonly Artifact[], kind: DocumentKind): readonly Artifact[] =>
  documents.filter((artifact) => artifact.kind === kind)

function validOnes(files: PackFiles, found: Found): readonly Artifact[] {
  const documents: Artifact[] = []
  for (const path of files.keys()) {
    const kind = /^artifacts\/([a-z]+)(?:-\d+)?\.json$/.exec(path)?.[1] as DocumentKind | undefined
    if (kind === undefined || !DOCUMENT_KINDS.includes(kind)) continue
    const document = jsonIn(files, path, found)
    if (document === undefined) continue
    if (!isValid(kind, document)) found('artifact.valid', path, told(kind, document))
    else documents.push({ path, kind, document: document as unknown as JsonObject })
  }
  return documents
}

/** Of two objects with one id every reader would believe another. */
function checkOnce(documents: readonly Artifact[], found: Found): void {
  const seen = new Set<string>()
  for (const { path, kind, document } of documents) {
    const name = `${kind} ${String(document[`${kind}_id`])}`
    if (seen.has(name)) found('artifact.twice', path, `is ${name} once more`)
    seen.add(name)
  }
}

function checkSteps({ path, document }: Artifact, found: Found): void {
  const { steps } = document as unknown as Plan
  const ids = new Set<string>()
  for (const [i, { step_id }] of steps.entries()) {
    if (ids.has(step_id)) found('artifact.twice', `${path}:steps[${i}]`, `is step ${step_id} once more`)
    ids.add(step_id)
  }
  for (const [i, { dependencies = [] }] of steps.entries())
    for (const id of dependencies)
      if (!ids.has(id))
        found('artifact.reference', `${path}:steps[${i}].dependencies`, `refers to ${id}, which is not in the plan`)
}

/** It tells something; a tool answers only when it was called (a call that was cut off has no answer), and both have data. */
function checkTrace({ path, document }: Artifact, found: Found): void {
  const events = Array.isArray(document.events) ? document.events.filter(isObject) : []
  if (events.length === 0) found('artifact.trace', `${path}:events`, 'must not be empty')
  const calls = events.filter(({ event_type }) => event_type === 'tool.call')
  const answers = events.filter(({ event_type }) => event_type === 'tool.result')
  if (answers.length > calls.length)
    found('artifact.trace', `${path}:events`, `tells ${calls.length} tool calls, but ${answers.length} results`)
  if ([...calls, ...answers].some(({ data }) => !isObject(data)))
    found('artifact.trace', `${path}:events`, 'tells a tool call or result without data')
}
