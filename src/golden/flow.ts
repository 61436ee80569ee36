import { readdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { goldenInvariants } from '../protocol/invariant-rules.ts'
import { type PathInvariant, parseInvariant } from '../protocol/invariants.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { DOCUMENT_KINDS } from '../psg/document.ts'
import { type Answers, CAPABILITIES, type Capability } from './driver.ts'
import { invalid, namesIn, readJsonFolder, readLines, readTree, readYaml, type Source } from './flow-files.ts'
import { type Act, scriptIn, texts } from './flow-script.ts'
import { isCounted, kindOfFile } from './inputs.ts'
import { checkFolder } from './pack-files.ts'

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
  /** `exact`: a document is what is expected of it and nothing more. `protocol`: as its own harness compares, which asks only for what is expected, and for no ids and times. */
  readonly compare: 'exact' | 'protocol'
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

const KNOWN: ReadonlySet<string> = new Set(CAPABILITIES)

/**
 * Every flow below a folder: `<area>/<flow>/`, or fixtures as the protocol lays them out, with or without an area around them. Throws InvalidInput with
 * file and line for whatever is not as it must be, before anything runs.
 */
export async function readFlows(root: string): Promise<readonly GoldenFlow[]> {
  checkFolder(root)
  const flows: GoldenFlow[] = []
  for (const area of await foldersIn(root)) {
    const names = await foldersIn(join(root, area))
    if (await isFlow(join(root, area)))
      throw invalid(area, 'area', 'is a flow without an area around it: name the folder that holds <area>/<name>/')
    if (names.includes('input')) flows.push(await readFixture(root, area))
    else for (const name of names) flows.push(await readFlow(root, area, name))
  }
  if (flows.length === 0) throw invalid(root, 'flows', 'holds no flow: a flow is <area>/<name>/flow.yaml')
  return flows
}

const isFlow = async (folder: string): Promise<boolean> =>
  (await readdir(folder)).some((name) => name === 'flow.yaml' || name === 'script.yaml')

async function readFlow(root: string, area: string, name: string): Promise<GoldenFlow> {
  const folder = join(root, area, name)
  if ((await foldersIn(folder)).includes('input') && !(await isFlow(folder)))
    return readFixture(root, `${area}/${name}`)
  const path = (file: string) => join(folder, file)
  const shown = (file: string) => relative(root, path(file))
  const required = async (file: string): Promise<Source> => {
    const source = await readYaml(path(file), shown(file))
    if (!source) throw invalid(shown(file), 'readable', 'is missing')
    return source
  }
  const stray = (await namesIn(folder, `${area}/${name}`)).find((file) => !isPart(file))
  if (stray !== undefined)
    throw invalid(shown(stray), 'enum', `is nothing that a flow has: ${PARTS.join(', ')}, and notes as .md`)
  const head = headIn(await required('flow.yaml'))
  const unread = (await namesIn(path('input'), shown('input'))).find(
    (file) => !file.endsWith('.json') && !isAside(file),
  )
  if (unread !== undefined) throw invalid(shown(`input/${unread}`), 'enum', 'is no .json, and would go in nowhere')
  const input = await readJsonFolder(path('input'), shown('input'))
  const { acts, answers, unused } = scriptIn(await required('script.yaml'), input, head.needs)
  for (const name of unused)
    throw invalid(
      shown(`input/${name}.json`),
      'unused',
      'goes in nowhere: no act names it, and a load of all takes kinds',
    )
  const tree = await readTree(path('files'), shown('files'))
  const expected = await readJsonFolder(path('expected'), shown('expected'))
  const odd = (await namesIn(path('expected'), shown('expected'))).find((file) => !isExpectable(file))
  if (odd !== undefined)
    throw invalid(
      shown(`expected/${odd}`),
      'enum',
      `is nothing to expect: a name is a kind, as plan.json or plan-2.json, of ${DOCUMENT_KINDS.join(', ')}; events lie in events.ndjson`,
    )
  const expectedEvents = await readLines(path('expected/events.ndjson'), shown('expected/events.ndjson'))
  const invariants = await readYaml(path('invariants.yaml'), shown('invariants.yaml'))
  return {
    name: `${area}/${name}`,
    area,
    ...head,
    input,
    expected,
    answers,
    script: acts,
    ...(tree && { files: tree }),
    ...(expectedEvents && { expectedEvents }),
    invariants: invariants ? invariantsIn(invariants) : [],
  }
}

/** What nobody would look at must not seem to be held against anything. */
const PARTS = ['flow.yaml', 'script.yaml', 'invariants.yaml', 'input', 'files', 'expected']
const isAside = (file: string): boolean => file.startsWith('.') || file.endsWith('.md')
const isPart = (file: string): boolean => PARTS.includes(file) || isAside(file)
const isExpectable = (file: string): boolean =>
  file === 'events.ndjson' ||
  file.startsWith('.') ||
  (file.endsWith('.json') && isCounted(file.slice(0, -'.json'.length)))

/** Documents that go in and must come out, and invariants: the protocol's own fixtures, which bring no script. */
async function readFixture(root: string, folder: string): Promise<GoldenFlow> {
  const path = (file: string) => join(root, folder, file)
  const shown = (file: string) => relative(root, path(file))
  const invariants = await readYaml(path('invariants.yaml'), shown('invariants.yaml'))
  return {
    name: folder.includes('/') ? folder : `fixtures/${folder}`,
    area: folder.includes('/') ? folder.split('/')[0]! : 'fixtures',
    proves: 'Documents of the protocol come out as they went in, and its invariants hold.',
    rules: [],
    needs: ['conformance'],
    volatile: [],
    compare: 'protocol',
    input: await readJsonFolder(path('input'), shown('input')),
    expected: await readJsonFolder(path('expected'), shown('expected')),
    answers: {},
    script: ['load', 'verify'].map((verb) => ({ verb, given: null, at: shown('input') })),
    invariants: [...goldenInvariants, ...(invariants ? invariantsIn(invariants) : [])],
  }
}

function headIn({ value, at }: Source): Pick<GoldenFlow, 'proves' | 'rules' | 'needs' | 'volatile' | 'compare'> {
  if (!isObject(value)) throw invalid(at(), 'type', 'must be a map')
  const { proves, rules = [], needs = ['conformance'], volatile = [], compare = 'exact', ...rest } = value
  for (const key of Object.keys(rest)) throw invalid(at(key), 'extra_forbidden', `${key} is not part of a flow`)
  if (typeof proves !== 'string') throw invalid(at('proves'), 'required', 'proves says in words what the flow proves')
  for (const [i, need] of texts(needs, at('needs'), 'needs').entries())
    if (!KNOWN.has(need)) throw invalid(at('needs', i), 'enum', `${need} is not a capability`)
  if (compare !== 'exact' && compare !== 'protocol') throw invalid(at('compare'), 'enum', 'must be exact or protocol')
  return {
    proves,
    compare,
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
    const { scope } = isObject(entry) ? entry : {}
    if (typeof scope === 'string' && scope !== 'event' && !kindOfFile(scope))
      throw invalid(at(...under, i), 'invariant', `scope ${scope} is nothing that a flow has; known are ${SCOPES}`)
    try {
      return parseInvariant(entry)
    } catch (cause) {
      throw invalid(at(...under, i), 'invariant', (cause as Error).message, cause)
    }
  })
}
const SCOPES = [...DOCUMENT_KINDS, 'event'].join(', ')

/** But hidden ones: `.git` is no area. */
const foldersIn = async (path: string): Promise<readonly string[]> =>
  (
    await readdir(path, { withFileTypes: true }).catch((cause: Error) => {
      throw invalid(path, 'readable', 'is not a folder that can be read', cause)
    })
  )
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
    .map((entry) => entry.name)
    .sort()
