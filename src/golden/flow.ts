import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { isMap, LineCounter, parseDocument } from 'yaml'
import { InvalidInput } from '../protocol/errors.ts'
import { type PathInvariant, parseInvariant } from '../protocol/invariants.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import type { DocumentKind } from '../psg/document.ts'
import { DOCUMENT_KINDS } from '../psg/document.ts'
import type { Answers, Capability } from './driver.ts'

/** A folder of data that proves something about a runtime. */
export interface GoldenFlow {
  /** `<area>/<flow>`. */
  readonly name: string
  readonly area: string
  readonly proves: string
  /** Ids of the rules, arrows and events that it would notice missing. */
  readonly rules: readonly string[]
  readonly needs: readonly Capability[]
  /** Field names whose values may differ from run to run. */
  readonly volatile: readonly string[]
  readonly input: { readonly [name: string]: Json }
  readonly answers: Answers
  readonly script: readonly Act[]
  /** By file name without ending. */
  readonly expected: { readonly [name: string]: Json }
  readonly expectedEvents?: readonly JsonObject[]
  readonly invariants: readonly PathInvariant[]
}

/** One act of a script: a verb and what it needs; `refused` names the rules that must refuse it. */
export interface Act {
  readonly verb: string
  readonly given: Json
  readonly refused?: readonly string[]
}

const VERBS: ReadonlySet<string> = new Set([
  'load',
  'move',
  'edit',
  'add',
  'remove',
  'depend',
  'forbidden',
  'submit',
  'settle',
  'decide',
  'propose',
  'cancel',
  'signal',
  'crash',
  'rollback',
  'verify',
  'expect',
])
const CAPABILITIES: ReadonlySet<string> = new Set<Capability>([
  'conformance',
  'execution',
  'approval',
  'recovery',
  'rollback',
  'multi_agent',
  'drift',
  'bare_store',
])

/** Every flow below a folder. Throws InvalidInput with file and line for whatever is not as it must be, before anything runs. */
export async function readFlows(root: string): Promise<readonly GoldenFlow[]> {
  const flows: GoldenFlow[] = []
  for (const area of await foldersIn(root))
    for (const name of await foldersIn(join(root, area))) flows.push(await readFlow(root, area, name))
  if (flows.length === 0) throw invalid(root, 'flows', 'holds no flow: a flow is <area>/<name>/flow.yaml')
  return flows
}

async function readFlow(root: string, area: string, name: string): Promise<GoldenFlow> {
  const folder = join(root, area, name)
  const at = (file: string) => relative(root, join(folder, file))
  const head = await yaml(join(folder, 'flow.yaml'), at('flow.yaml'))
  if (!isObject(head)) throw invalid(at('flow.yaml'), 'type', 'must be a map')
  const { proves, rules = [], needs = ['conformance'], volatile = [], ...rest } = head
  const [unknown] = Object.keys(rest)
  if (unknown !== undefined) throw invalid(at('flow.yaml'), 'extra_forbidden', `${unknown} is not part of a flow`)
  if (typeof proves !== 'string')
    throw invalid(at('flow.yaml'), 'required', 'proves says in words what the flow proves')
  for (const need of texts(needs, at('flow.yaml'), 'needs'))
    if (!CAPABILITIES.has(need)) throw invalid(at('flow.yaml'), 'enum', `${need} is not a capability`)
  const scripted = await yaml(join(folder, 'script.yaml'), at('script.yaml'))
  if (!isObject(scripted)) throw invalid(at('script.yaml'), 'type', 'must be a map with acts and answers')
  const input = await jsonFiles(join(folder, 'input'), at('input'))
  const expected = await jsonFiles(join(folder, 'expected'), at('expected'))
  const events = await optional(join(folder, 'expected', 'events.ndjson'))
  const rulesFile = await optional(join(folder, 'invariants.yaml'))
  return {
    name: `${area}/${name}`,
    area,
    proves,
    rules: texts(rules, at('flow.yaml'), 'rules'),
    needs: texts(needs, at('flow.yaml'), 'needs') as Capability[],
    volatile: texts(volatile, at('flow.yaml'), 'volatile'),
    input,
    expected,
    answers: (scripted.answers ?? {}) as Answers,
    script: actsOf(scripted.acts, input, at('script.yaml')),
    ...(events !== undefined && {
      expectedEvents: events
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as JsonObject),
    }),
    invariants:
      rulesFile === undefined
        ? []
        : invariantsOf(await yaml(join(folder, 'invariants.yaml'), at('invariants.yaml')), at('invariants.yaml')),
  }
}

function actsOf(acts: unknown, input: { readonly [name: string]: Json }, file: string): readonly Act[] {
  if (!Array.isArray(acts) || acts.length === 0)
    throw invalid(file, 'min_items', 'acts must be a list with at least one act')
  return acts.map((act, i) => {
    const entry: { [key: string]: unknown } = typeof act === 'string' ? { [act]: null } : isObject(act) ? act : {}
    const { refused, ...verbs } = entry
    const [verb, second] = Object.keys(verbs)
    if (verb === undefined || second !== undefined) throw invalid(file, 'one_verb', `acts[${i}] must have one verb`)
    if (!VERBS.has(verb))
      throw invalid(file, 'enum', `acts[${i}]: ${verb} is not a verb; known are ${[...VERBS].join(', ')}`)
    const given = withInputs(verbs[verb] as Json, input, `${file}: acts[${i}]`)
    return { verb, given, ...(refused !== undefined && { refused: texts(refused, file, `acts[${i}].refused`) }) }
  })
}

/** `$file` stands for an input document, `$file.path` for a value in it. */
function withInputs(value: Json, input: { readonly [name: string]: Json }, file: string): Json {
  if (typeof value === 'string' && /^\$[a-z]/.test(value)) {
    const [name, ...path] = value.slice(1).split('.')
    let found: Json | undefined = input[name!]
    for (const part of path)
      found = Array.isArray(found) ? found[Number(part)] : isObject(found) ? (found as JsonObject)[part] : undefined
    if (found === undefined) throw invalid(file, 'reference', `${value} leads nowhere in input/`)
    return found
  }
  if (Array.isArray(value)) return value.map((item) => withInputs(item, input, file))
  if (isObject(value))
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [
        String(withInputs(key, input, file)),
        withInputs(item as Json, input, file),
      ]),
    )
  return value ?? null
}

function invariantsOf(entries: unknown, file: string): readonly PathInvariant[] {
  const list = Array.isArray(entries)
    ? entries
    : isObject(entries) && Array.isArray(entries.invariants)
      ? entries.invariants
      : undefined
  if (!list) throw invalid(file, 'type', 'must be a list of invariants')
  return list.map((entry, i) => {
    try {
      return parseInvariant(entry)
    } catch (cause) {
      throw invalid(file, 'invariant', `entry ${i}: ${(cause as Error).message}`, cause)
    }
  })
}

async function yaml(path: string, shown: string): Promise<unknown> {
  const text = await readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    throw invalid(shown, 'readable', cause.code === 'ENOENT' ? 'is missing' : `cannot be read (${cause.code})`, cause)
  })
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines })
  const [error] = document.errors
  if (error) throw invalid(`${shown}:${lines.linePos(error.pos[0]).line}`, 'syntax', error.message.split('\n')[0]!)
  return isMap(document.contents) || document.contents ? document.toJS() : undefined
}

async function jsonFiles(folder: string, shown: string): Promise<{ [name: string]: Json }> {
  const names = (await readdir(folder).catch(() => [] as string[])).filter((name) => name.endsWith('.json')).sort()
  const found: { [name: string]: Json } = {}
  for (const name of names) {
    try {
      found[name.slice(0, -'.json'.length)] = JSON.parse(await readFile(join(folder, name), 'utf8'))
    } catch (cause) {
      throw invalid(`${shown}/${name}`, 'syntax', (cause as Error).message, cause)
    }
  }
  return found
}

const optional = (path: string): Promise<string | undefined> => readFile(path, 'utf8').catch(() => undefined)

const foldersIn = async (path: string): Promise<readonly string[]> =>
  (
    await readdir(path, { withFileTypes: true }).catch((cause: Error) => {
      throw invalid(path, 'readable', 'is not a folder that can be read', cause)
    })
  )
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort()

function texts(value: unknown, file: string, what: string): readonly string[] {
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value
  throw invalid(file, 'type', `${what} must be a list of texts`)
}

const invalid = (file: string, rule: string, message: string, cause?: unknown) =>
  new InvalidInput('golden flow', [{ path: file, rule, message }], { cause })

/** Which document an input file holds, by its name: `plan.json`, `plan-2.json`. */
export function kindOfFile(name: string): DocumentKind | undefined {
  const kind = /^([a-z]+)(?:-.+)?$/.exec(name)?.[1]
  return (DOCUMENT_KINDS as readonly string[]).includes(kind ?? '') ? (kind as DocumentKind) : undefined
}
