import { readdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { type PathInvariant, parseInvariant } from '../protocol/invariants.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import type { Answers, Capability } from './driver.ts'
import { invalid, readJsonFolder, readLines, readTree, readYaml, type Source } from './flow-files.ts'
import { type Act, scriptIn, texts } from './flow-script.ts'

/** A folder of data that proves something about a runtime. */
export interface GoldenFlow {
  /** `<area>/<flow>`. */
  readonly name: string
  readonly area: string
  readonly proves: string
  /** Ids of the rules, arrows, invariants and events that it would notice missing. */
  readonly rules: readonly string[]
  readonly needs: readonly Capability[]
  /** Field names whose values may differ from run to run. */
  readonly volatile: readonly string[]
  readonly input: { readonly [name: string]: Json }
  /** What lies in the project's folder at the beginning. */
  readonly files?: { readonly [path: string]: string }
  readonly answers: Answers
  readonly script: readonly Act[]
  /** By file name without ending. */
  readonly expected: { readonly [name: string]: Json }
  readonly expectedEvents?: readonly JsonObject[]
  readonly invariants: readonly PathInvariant[]
}

const CAPABILITIES: ReadonlySet<string> = new Set<Capability>([
  'conformance',
  'execution',
  'approval',
  'recovery',
  'takeover',
  'rollback',
  'invariants',
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
  const path = (file: string) => join(root, area, name, file)
  const shown = (file: string) => relative(root, path(file))
  const required = async (file: string): Promise<Source> => {
    const source = await readYaml(path(file), shown(file))
    if (!source) throw invalid(shown(file), 'readable', 'is missing')
    return source
  }
  const head = headIn(await required('flow.yaml'))
  const input = await readJsonFolder(path('input'), shown('input'))
  const { acts, answers } = scriptIn(await required('script.yaml'), input, head.needs)
  const files = await readTree(path('files'))
  const expectedEvents = await readLines(path('expected/events.ndjson'), shown('expected/events.ndjson'))
  const invariants = await readYaml(path('invariants.yaml'), shown('invariants.yaml'))
  return {
    name: `${area}/${name}`,
    area,
    ...head,
    input,
    expected: await readJsonFolder(path('expected'), shown('expected')),
    answers,
    script: acts,
    ...(files && { files }),
    ...(expectedEvents && { expectedEvents: expectedEvents as readonly JsonObject[] }),
    invariants: invariants ? invariantsIn(invariants) : [],
  }
}

function headIn({ value, at }: Source): Pick<GoldenFlow, 'proves' | 'rules' | 'needs' | 'volatile'> {
  if (!isObject(value)) throw invalid(at(), 'type', 'must be a map')
  const { proves, rules = [], needs = ['conformance'], volatile = [], ...rest } = value
  for (const key of Object.keys(rest)) throw invalid(at(key), 'extra_forbidden', `${key} is not part of a flow`)
  if (typeof proves !== 'string') throw invalid(at('proves'), 'required', 'proves says in words what the flow proves')
  for (const [i, need] of texts(needs, at('needs'), 'needs').entries())
    if (!CAPABILITIES.has(need)) throw invalid(at('needs', i), 'enum', `${need} is not a capability`)
  return {
    proves,
    rules: texts(rules, at('rules'), 'rules'),
    needs: needs as readonly Capability[],
    volatile: texts(volatile, at('volatile'), 'volatile'),
  }
}

/** A list of invariants, alone or under `invariants`, as the protocol writes them. */
function invariantsIn({ value, at }: Source): readonly PathInvariant[] {
  const under = isObject(value) ? ['invariants'] : []
  const list = isObject(value) ? value.invariants : value
  if (!Array.isArray(list)) throw invalid(at(...under), 'type', 'must be a list of invariants')
  return list.map((entry, i) => {
    try {
      return parseInvariant(entry)
    } catch (cause) {
      throw invalid(at(...under, i), 'invariant', (cause as Error).message, cause)
    }
  })
}

const foldersIn = async (path: string): Promise<readonly string[]> =>
  (
    await readdir(path, { withFileTypes: true }).catch((cause: Error) => {
      throw invalid(path, 'readable', 'is not a folder that can be read', cause)
    })
  )
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort()
