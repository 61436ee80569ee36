import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { tempFolder } from '../support/temp-folder.ts'
import { ROOT } from './imports.ts'
import { unnameable } from './unnameable.ts'

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
/** What can be imported by name: not the schemas, which are a pattern, nor package.json. */
const MODULES = Object.keys(manifest.exports)
  .filter((key) => typeof manifest.exports[key] !== 'string')
  .map((key) => key.replace('.', manifest.name))

/** Libraries of members that somebody may never use. */
const CLIENTS = [
  'pg',
  'kysely',
  'libsql',
  'ioredis',
  'kafkajs',
  'ws',
  'ai',
  '@ai-sdk',
  '@modelcontextprotocol',
  'fastify',
]

let packed: { filename: string; files: { path: string }[] }
let project: string

beforeAll(() => {
  const folder = tempFolder()
  packed = JSON.parse(npm(ROOT, 'pack', '--json', '--pack-destination', folder).replace(/^[^[]*/, ''))[0]
  project = join(folder, 'project')
  mkdirSync(project)
  writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'somebody', private: true, type: 'module' }))
  npm(project, 'install', '--no-audit', '--no-fund', '--prefer-offline', join(folder, packed.filename))
  // What such a project has anyway.
  for (const name of ['vitest', '@types/node']) {
    mkdirSync(join(project, 'node_modules', name, '..'), { recursive: true })
    const target = join(project, 'node_modules', name)
    if (!existsSync(target)) symlinkSync(join(ROOT, 'node_modules', name), target) // the package may have brought it along
  }
}, 240_000)

describe('the packed tarball', () => {
  it('holds what package.json points to', () => {
    const paths = packed.files.map((file) => `./${file.path}`)
    const targets = Object.values(manifest.exports as Record<string, string | object>)
      .flatMap((target) => (typeof target === 'string' ? [target] : Object.values(target)))
      .filter((target) => !target.includes('*'))
    expect(targets.filter((target) => !paths.includes(target))).toEqual([])
    expect(Object.values(manifest.bin ?? {}).filter((target) => !paths.includes(String(target)))).toEqual([])
  })

  it('holds the schemas and the licence, and no source, test or map', () => {
    const paths = packed.files.map((file) => file.path)
    expect(paths).toEqual(expect.arrayContaining(['LICENSE', 'schemas/mplp/plan.schema.json']))
    expect(paths.filter((path) => /^(src|test|scripts|bench)\/|\.map$|(?<!\.d)\.ts$/.test(path))).toEqual([])
  })
})

describe('a project that installed it', () => {
  it('imports every export', () => {
    expect(importAll()).toEqual(MODULES)
  })

  it('imports every export where Node may read no more than the packages', () => {
    expect(importAll(...PERMISSION, ...mayRead(project, ROOT))).toEqual(MODULES)
  })

  it.each(['file', 'sqlite'])('is refused a %s store where Node lets nothing be written', (kind) => {
    const script = `
      import { openStore } from 'mplp-runtime/vsl'
      await openStore('${kind}:./kept/state').catch(({ code, message }) => console.log(code, message))`
    const flags = [...PERMISSION, '--allow-addons', ...mayRead(project, ROOT)]
    expect(node(...flags, '--input-type=module', '-e', script)).toMatch(/^refused .*--allow-fs-write/)
  })

  it.each([{ vsl: 'memory:' }, { vsl: 'memory:', root: '.' }])(
    'reads files where Node may, and changes none where it forbids that this be durable, %o',
    (config) => {
      const folder = join(project, 'tracked')
      mkdirSync(folder, { recursive: true })
      writeFileSync(join(folder, 'note.md'), 'noted')
      const script = `
        import { flowOf, openRuntime } from 'mplp-runtime'
        process.chdir('tracked')
        const runtime = await openRuntime(${JSON.stringify(config)})
        for (const operation of ['read', 'delete']) {
          const steps = { it: { action_type: 'file_operation', params: { operation, path: 'note.md' } } }
          const { status, error } = await (await runtime.submit(flowOf({ title: operation, steps }).flow)).result()
          console.log(operation, status, error?.message ?? '')
        }
        await runtime.close()`
      const flags = [...PERMISSION, ...mayRead(project, ROOT), `--allow-fs-write=${folder}/`]
      const [read, gone] = node(...flags, '--input-type=module', '-e', script).split('\n')
      expect(read).toMatch(/^read completed/)
      expect(gone).toMatch(/^delete failed note\.md: .*--permission/)
      expect(readFileSync(join(folder, 'note.md'), 'utf8')).toBe('noted')
    },
  )

  it('reads a schema by its path', () => {
    const script = "process.stdout.write(import.meta.resolve('mplp-runtime/schemas/mplp/plan.schema.json'))"
    const path = node('--input-type=module', '-e', script)
    expect(JSON.parse(readFileSync(new URL(path), 'utf8'))).toHaveProperty('title', 'Plan')
  })

  it('compiles against the types of every export, and is not asked to mend those of the libraries behind', () => {
    const lines = MODULES.map((name, i) => `import * as m${i} from '${name}'`)
    const uses = `export const all: object[] = [${MODULES.map((_, i) => `m${i}`).join(', ')}]`
    writeFileSync(join(project, 'consumer.ts'), [...lines, uses, ''].join('\n'))
    expect(compile()).toBe('')
  })

  it('brings models of the AI SDK to its own provider, and one that it has written', () => {
    writeFileSync(join(project, 'consumer.ts'), OWN_PROVIDER)
    expect(compile({ ...STRICT, skipLibCheck: true })).toBe('')
  })

  it('hands on what it is given: every type of it has a name that can be imported', () => {
    const found = MODULES.map((name, i) => `import type * as m${i} from '${name}'\n`) // the compiler looks no further than what is there
    writeFileSync(join(project, 'consumer.ts'), found.join('') + HANDED_ON)
    const emitting = { skipLibCheck: true, noEmit: false, declaration: true, outDir: 'handed-on' }
    expect(compile({ ...STRICT, ...emitting })).toBe('')
  })

  it('can name every type that an export speaks of', () => {
    const entries = MODULES.map((name) => manifest.exports[name.replace(manifest.name, '.')].types)
    writeFileSync(join(project, 'consumer.ts'), MODULES.map((name) => `import '${name}'\n`).join(''))
    writeConfig({ ...STRICT, skipLibCheck: true })
    expect(unnameable(project, join(project, 'node_modules', manifest.name), entries)).toEqual([])
  })

  it('learns from the compiler what an export does not have', () => {
    writeFileSync(
      join(project, 'consumer.ts'),
      `import { noSuchThing } from '${MODULES[0]}'\nexport const all = noSuchThing\n`,
    )
    expect(compile()).toContain('noSuchThing')
  })

  it.each([
    ['cli/main.js', ['errors', 'io', 'version', 'version']], // the number, and the verb that tells it
    ['vsl/vsl.js', ['errors', 'vsl']],
    ['orchestrator/orchestrator.js', ['ael', 'bus', 'errors', 'orchestrator', 'protocol', 'psg', 'version', 'vsl']],
  ])('does not bring with %s what it does not stand on', (entry, rooms) => {
    const dist = join(project, 'node_modules', manifest.name, 'dist')
    expect([...sharedBy(join(dist, entry))].map((path) => basename(path).split('-')[0]).sort()).toEqual(rooms)
  })

  it('imports every export without the libraries of members it does not use', () => {
    mkdirSync(join(project, 'put-away'))
    const there = readdirSync(join(project, 'node_modules'))
    for (const name of CLIENTS.filter((client) => there.includes(client))) {
      renameSync(join(project, 'node_modules', name), join(project, 'put-away', name))
    }
    expect(importAll()).toEqual(MODULES)
  })
})

const PERMISSION = [
  process.allowedNodeEnvironmentFlags.has('--permission') ? '--permission' : '--experimental-permission',
]
const mayRead = (...folders: string[]): string[] => folders.map((folder) => `--allow-fs-read=${folder}/`)

const STRICT = {
  module: 'nodenext',
  target: 'es2023',
  lib: ['es2023'],
  types: ['node'],
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  skipLibCheck: false,
  noEmit: true,
}

/** A library on top of ours: what it exports has the types of what it was given, and names none of them. */
const HANDED_ON = `
import { openRuntime } from '${manifest.name}'
import { type Delivery, openBus, openSource, type Transport } from '${manifest.name}/bus'
import { serve } from '${manifest.name}/server'
import { openStore } from '${manifest.name}/vsl'
export const runtime = await openRuntime()
export const { config, folder, project, modules, buses, tools, layer } = runtime
export const questions = await runtime.waiting()
export const decided = await runtime.decide('', { status: 'approved', decided_by_role: '' })
export const called = await runtime.call('plan', {})
export const run = await runtime.get('')
export const result = await run.result()
export const report = await runtime.rollback('')
export const graph = await project.context('')
export const plan = await graph.document('plan', '')
export const past = await graph.history('plan', '')
export const snapshot = await graph.snapshot('', { actor: '', reason: '' })
export const tracker = await folder!.tracker()
export const scanned = await tracker.scan()
export const settled = await tracker.reconcile('all', 'ask')
export const bus = await openBus('memory:')
export const source = await openSource('memory:')
export const server = await serve(runtime)
export const store = await openStore('memory:')
export const told = async (transport: Transport, batch: readonly Delivery[]) => transport.publish(batch)
`

/** The model of a package that we know nothing about, and what its vendor's settings are; and one that is typed by nothing but ours. */
const OWN_PROVIDER = `
import { createOpenAI } from '@ai-sdk/openai'
import { llmAdapter, type ModelPart, type Provider } from '${manifest.name}/ael/llm'
const mine: Provider = { model: async (id) => createOpenAI({ apiKey: 'k' }).responses(id), secrets: () => ['k'] }
// @ts-expect-error: it does not say why it ends
const cut: ModelPart = { type: 'finish' }
const written: Provider = {
  model: async (modelId) => ({
    specificationVersion: 'v3',
    provider: 'written',
    modelId,
    supportedUrls: {},
    doGenerate: async ({ prompt, tools = [] }) => ({
      content: [{ type: 'text', text: [prompt.at(-1)?.role, ...tools.map(({ name }) => name)].join() }],
      finishReason: { unified: 'stop' },
      warnings: [],
    }),
    doStream: async () => ({ stream: ReadableStream.from([cut]) }),
  }),
  secrets: () => [],
}
export const adapter = llmAdapter({ providers: { mine, written } })
`

/** The names whose modules could be loaded and have something to offer. */
function importAll(...flags: string[]): string[] {
  const script = `
    for (const name of ${JSON.stringify(MODULES)}) {
      const module = await import(name)
      if (Object.keys(module).length > 0) console.log(name)
    }`
  return node(...flags, '--input-type=module', '-e', script)
    .trim()
    .split('\n')
}

function compile(compilerOptions: object = STRICT): string {
  writeConfig(compilerOptions)
  try {
    return execFileSync(join(ROOT, 'node_modules/.bin/tsc'), ['-p', '.', '--pretty', 'false'], {
      cwd: project,
      encoding: 'utf8',
    })
  } catch (error) {
    return (error as { stdout: string }).stdout
  }
}

function writeConfig(compilerOptions: object): void {
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['consumer.ts'] }))
}

function npm(cwd: string, ...args: string[]): string {
  return execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
}

function node(...args: string[]): string {
  return execFileSync(process.execPath, args, { cwd: project, encoding: 'utf8' })
}

/** The shared files that a module brings with it at once, itself or through others. */
function sharedBy(module: string, found = new Set<string>()): ReadonlySet<string> {
  for (const [, path] of readFileSync(module, 'utf8').matchAll(/^(?:import|export)\b[^;]*?["'](\.[^"']+)["'];/gm)) {
    const next = join(module, '..', path!)
    if (found.has(next)) continue
    if (next.includes('/shared/')) found.add(next)
    sharedBy(next, found)
  }
  return found
}
