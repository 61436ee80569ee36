import { type Import, resolved, type SourceFile } from './imports.ts'

/** Which rooms a room may import. Files directly below src/ are rooms of their own; index.ts, the public list, may name them all. */
const BELOW_COMPOSE = [
  'orchestrator',
  'drift',
  'psg',
  'vsl',
  'bus',
  'ael',
  'protocol',
  'config',
  'config-check',
  'configured-adapters',
  'configured-store',
  'folder',
]
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  protocol: [],
  vsl: ['protocol'],
  bus: ['protocol'],
  ael: ['protocol'],
  psg: ['vsl', 'protocol'],
  drift: ['psg', 'vsl', 'protocol'],
  orchestrator: ['drift', 'psg', 'vsl', 'bus', 'ael', 'protocol'],
  config: ['protocol', 'ael', 'bus', 'vsl', 'orchestrator', 'config-check'], // it gives a config file the types of what it may name
  'config-check': ['protocol', 'ael', 'bus', 'vsl', 'config'], // it asks them what they could work with
  'configured-adapters': ['orchestrator', 'vsl', 'ael', 'protocol', 'config', 'config-check'],
  'configured-store': ['vsl', 'protocol', 'config'],
  folder: ['orchestrator', 'drift', 'psg', 'vsl', 'protocol', 'config', 'config-check'],
  compose: BELOW_COMPOSE,
  golden: ['compose', ...BELOW_COMPOSE],
  server: ['golden', 'compose', ...BELOW_COMPOSE],
  cli: ['server', 'golden', 'compose', ...BELOW_COMPOSE],
  index: ['golden', 'compose', ...BELOW_COMPOSE],
}

/** Where a package may be imported. `lazy`: only inside the function that needs it, so that nobody who uses memory loads it. */
interface Home {
  readonly files: RegExp
  readonly lazy?: true
}
const HOMES: Readonly<Record<string, Home>> = {
  pg: { files: /^src\/vsl\/postgres/, lazy: true },
  kysely: { files: /^src\/vsl\/(postgres|sqlite)/, lazy: true },
  libsql: { files: /^src\/vsl\/sqlite/, lazy: true },
  ioredis: { files: /^src\/(vsl|bus)\/redis/, lazy: true },
  kafkajs: { files: /^src\/bus\/kafka/, lazy: true },
  ws: { files: /^src\/(bus\/websocket|server\/)/, lazy: true },
  ai: { files: /^src\/ael\/(llm|provider)/, lazy: true },
  '@ai-sdk/anthropic': { files: /^src\/ael\/(llm|provider)/, lazy: true },
  '@ai-sdk/google': { files: /^src\/ael\/(llm|provider)/, lazy: true },
  '@ai-sdk/openai': { files: /^src\/ael\/(llm|provider)/, lazy: true },
  '@ai-sdk/openai-compatible': { files: /^src\/ael\/(llm|provider)/, lazy: true },
  '@modelcontextprotocol/sdk': { files: /^src\/(ael|server)\/mcp/, lazy: true },
  graphology: { files: /^src\/psg\/verify\.ts$/, lazy: true },
  'graphology-dag': { files: /^src\/psg\/verify\.ts$/, lazy: true },
  'node-diff3': { files: /^src\/drift\/merge\.ts$/ },
  ignore: { files: /^src\/drift\// },
  picomatch: { files: /^src\/(drift|ael)\// },
  ajv: { files: /^src\/(protocol|ael)\// },
  'ajv-formats': { files: /^src\/(protocol|ael)\// },
  zod: { files: /^src\/(ael|server)\// },
  yaml: { files: /^src\/(config\.ts$|golden\/|cli\/)/ },
  fastify: { files: /^src\/server\// },
  commander: { files: /^src\/cli\// },
}

/** Who may read what is not handed to them. */
const READERS: Readonly<Record<string, RegExp>> = {
  'process.env': /^src\/(config|cli\/main)\.ts$/,
  env: /^src\/(config|cli\/main)\.ts$/,
  'Date.now': /^src\/protocol\/clock\.ts$/,
  'new Date()': /^src\/protocol\/clock\.ts$/,
  'Math.random': /^src\/protocol\/clock\.ts$/,
  randomUUID: /^src\/protocol\/clock\.ts$/,
  'crypto.randomUUID': /^src\/protocol\/clock\.ts$/,
}

/** What stands where it may not, one line each. */
export function breaches(files: readonly SourceFile[]): string[] {
  return [...files.flatMap((file) => [...wrongImports(file), ...wrongReadings(file)]), ...cycles(files)]
}

function wrongImports(file: SourceFile): string[] {
  return file.imports.flatMap((found) => {
    const wrong = found.from.startsWith('.') ? wrongRoom(file, found) : wrongPackage(file, found)
    return wrong ? [`${file.path}:${found.line} ${wrong}`] : []
  })
}

function wrongRoom(file: SourceFile, { from }: Import): string | undefined {
  const target = resolved(file.path, from)
  if (!target.startsWith('src/')) return `imports ${target}, which is not part of the package`
  const [room, other] = [roomOf(file.path), roomOf(target)]
  const allowed = MAY_IMPORT[room]
  if (!allowed) return `is in the room ${room}, for which there is no rule`
  return room === other || allowed.includes(other)
    ? undefined
    : `imports ${target}, but ${room} may not import ${other}`
}

function wrongPackage(file: SourceFile, { from, when }: Import): string | undefined {
  if (from.startsWith('node:')) return undefined
  const name = from
    .split('/')
    .slice(0, from.startsWith('@') ? 2 : 1)
    .join('/')
  const home = HOMES[name]
  if (!home) return `imports ${name}, for which there is no rule`
  if (!home.files.test(file.path)) return `imports ${name}, which belongs in ${home.files.source}`
  return home.lazy && when === 'start' ? `loads ${name} at its start, not when it is needed` : undefined
}

function wrongReadings(file: SourceFile): string[] {
  return file.readings
    .filter(({ what }) => !READERS[what]?.test(file.path))
    .map(({ what, line }) => `${file.path}:${line} reads ${what}, which is handed in`)
}

/** Each cycle of imports once, from its first file in path order. Types are gone when the code runs, so they close none. */
function cycles(files: readonly SourceFile[]): string[] {
  const targets = new Map(
    files.map((f) => [
      f.path,
      f.imports.filter((i) => i.when !== 'type' && i.from.startsWith('.')).map((i) => resolved(f.path, i.from)),
    ]),
  )
  const finished = new Set<string>()
  const found: string[] = []
  const visit = (path: string, trail: readonly string[]): void => {
    if (trail.includes(path)) {
      found.push(`${[...trail.slice(trail.indexOf(path)), path].join(' -> ')} is a cycle`)
      return
    }
    if (finished.has(path)) return
    for (const target of targets.get(path) ?? []) visit(target, [...trail, path])
    finished.add(path)
  }
  for (const { path } of files) visit(path, [])
  return found
}

const roomOf = (path: string): string => (path.split('/')[1] as string).replace(/\.ts$/, '')
