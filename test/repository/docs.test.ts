import { execFile, execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { mergedConfig } from '../../src/config.ts'
import { flowIn } from '../../src/orchestrator/named-flow.ts'
import { checkedFlow } from '../../src/orchestrator/submit-check.ts'
import type { Plan } from '../../src/protocol/types.ts'
import { freshTopic, itNeeds, itOwns, privatePostgres, privateRedis } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { type Block, destination, type Page, pages } from './documents.ts'
import { ROOT } from './imports.ts'

// What the documents say is done here. A `ts` block is a program: it is compiled against the built package and run, and where a line ends in
// `console.log(…) // this`, `this` is what it prints. A `sh` block with `mplp` is run line by line, the blocks of one document in one folder; a line
// whose comment says `exit code 3` must end so, and a `text output` block after it shows lines that it prints. Further words behind the language:
// `no-run`, with the reason in the text beside it, `config` and `flow` for what must be taken as such, and `redis`, `postgres` or `kafka` for a block that needs a server and finds it in REDIS_URL,
// DATABASE_URL or KAFKA_BROKERS.

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const WORDS = ['no-run', 'config', 'flow', 'output', 'redis', 'postgres', 'kafka']
const PAGES = pages()
const INDEX = 'docs/README.md'
const byPath = new Map(PAGES.map((page) => [page.path, page]))

const isPublished = (path: string): boolean =>
  manifest.files.some((published: string) => path === published || path.startsWith(`${published}/`))

/** A project that has installed the package: the build under its own name, beside the libraries it needs. */
let project: string
const BUILD_MS = 300_000

beforeAll(() => {
  project = tempFolder()
  const installed = join(project, 'node_modules', manifest.name)
  mkdirSync(installed, { recursive: true })
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    if (!name.startsWith('.')) symlinkSync(join(ROOT, 'node_modules', name), join(project, 'node_modules', name))
  for (const name of ['package.json', 'schemas', 'golden-flows'])
    cpSync(join(ROOT, name), join(installed, name), { recursive: true })
  execFileSync(process.execPath, ['--import', 'tsx', 'scripts/build.ts', join(installed, 'dist')], { cwd: ROOT })
  mkdirSync(join(project, 'bin'))
  const mplp = `#!/bin/sh\nexec ${process.execPath} ${join(installed, manifest.bin.mplp)} "$@"\n`
  writeFileSync(join(project, 'bin/mplp'), mplp, { mode: 0o755 })
  writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'reader', private: true, type: 'module' }))
  for (const page of PAGES) for (const block of programsOf(page)) writeProgram(page, block)
  compile()
}, BUILD_MS)

for (const page of PAGES)
  describe(page.path, () => {
    it('links to what is there', () => {
      expect(page.links.flatMap(({ target, line }) => broken(page, target).map((why) => `${line}: ${why}`))).toEqual([])
    })

    if (isPublished(page.path))
      it('leads nobody who has the package alone to what is not in it', () => {
        const paths = page.links.filter(({ target }) => !/^https?:/.test(target))
        const absent = paths.filter(({ target }) => !isPublished(destination(page.path, target).path))
        expect(absent).toEqual([])
      })

    if (page.path.startsWith('docs/') && page.path !== INDEX)
      it('is listed for people and for models', () => {
        for (const list of [INDEX, 'llms.txt'])
          expect(byPath.get(list)!.links.map(({ target }) => destination(list, target).path)).toContain(page.path)
      })

    it('names files, scripts and verbs that are there', () => {
      expect(page.quoted.flatMap(({ target, line }) => missing(target).map((why) => `${line}: ${why}`))).toEqual([])
    })

    it('says nothing behind a fence that nobody understands, and JSON that is JSON', () => {
      for (const { language, words, text, line } of page.blocks) {
        expect(words.filter((word) => !WORDS.includes(word), `${page.path}:${line}`)).toEqual([])
        if (language === 'json') JSON.parse(text)
        if (words.includes('config')) mergedConfig(JSON.parse(text))
        if (words.includes('flow')) checkedFlow(flowIn(parse(text)).flow)
      }
    })

    for (const block of programsOf(page)) {
      const server = block.words.find((word) => word in ON_SERVER)
      const title = `line ${block.line}: compiles and runs`
      const run = (env: NodeJS.ProcessEnv) => runsProgram(page, block, env)
      if (server === undefined) it(title, { timeout: RUN_MS }, () => run({}))
      else ON_SERVER[server]!(title, run)
    }

    const commands = page.blocks.filter((block) => block.language === 'sh' && /^mplp /m.test(block.text))
    const runnable = commands.filter((block) => !block.words.includes('no-run'))
    if (runnable.length > 0)
      it('shows commands that do what it says', { timeout: RUN_MS * 2 }, async () => {
        const folder = join(project, 'shell', page.path.replaceAll('/', '-'))
        mkdirSync(folder, { recursive: true })
        for (const block of runnable) prints(outputAfter(page, block), await runsCommands(page, block, folder))
      })
  })

const RUN_MS = 120_000
type Runs = (title: string, run: (env: NodeJS.ProcessEnv) => Promise<void>) => void
const ON_SERVER: { readonly [server: string]: Runs } = {
  redis: (title, run) => itOwns(() => privateRedis())(title, ({ url }) => run({ REDIS_URL: url })),
  postgres: (title, run) => itOwns(privatePostgres)(title, ({ url }) => run({ DATABASE_URL: url })),
  kafka: (title, run) =>
    itNeeds('real kafka')(title, (brokers) => run({ KAFKA_BROKERS: brokers, KAFKA_TOPIC: freshTopic() }), RUN_MS),
}

function programsOf({ blocks }: Page): readonly Block[] {
  return blocks.filter(({ language, words }) => language === 'ts' && !words.includes('no-run'))
}

const folderOf = (page: Page, { line }: Block): string =>
  join(project, 'ts', page.path.replaceAll(/[/.]/g, '-'), `${line}`)

function writeProgram(page: Page, block: Block): void {
  mkdirSync(folderOf(page, block), { recursive: true })
  writeFileSync(join(folderOf(page, block), 'program.ts'), `${block.text}\nexport {}\n`)
}

let errors: readonly string[] = []

/** All at once; what is wrong is told when the program is to run. */
function compile(): void {
  const compilerOptions = {
    module: 'nodenext',
    target: 'es2023',
    lib: ['es2023'],
    types: ['node'],
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
  }
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['ts'] }))
  try {
    execFileSync(join(ROOT, 'node_modules/.bin/tsc'), ['-p', '.', '--pretty', 'false'], { cwd: project })
  } catch (error) {
    errors = String((error as { stdout?: unknown }).stdout ?? error)
      .split('\n')
      .filter((line) => /error TS/.test(line))
  }
}

async function runsProgram(page: Page, block: Block, env: NodeJS.ProcessEnv): Promise<void> {
  const folder = folderOf(page, block)
  expect(errors.filter((line) => line.startsWith(relative(project, folder)))).toEqual([])
  const { code, out, err } = await ran(process.execPath, ['program.js'], folder, env)
  expect(`${err}exit code ${code}`).toBe('exit code 0')
  const promised = [...block.text.matchAll(/console\.log\(.*\) \/\/ (.*)$/gm)].map(([, text]) => text)
  const printed = out.split('\n')
  expect(printed.filter((line) => promised.includes(line))).toEqual(promised)
}

/** `<plan>` and the like stand for what the commands before made. */
const PLACES: { readonly [name: string]: (folder: string) => Promise<string> | string } = {
  plan: async (folder) => (await lastPlan(folder)).plan_id,
  context: async (folder) => (await lastPlan(folder)).context_id,
  step: async (folder) => (await lastPlan(folder)).steps.at(-1)!.step_id,
  confirm: async (folder) => (await told(folder, 'confirm', 'list'))[0].confirm.confirm_id,
}

const told = async (folder: string, ...args: readonly string[]) =>
  JSON.parse((await ran(join(project, 'bin/mplp'), [...args, '--json'], folder)).out)

async function lastPlan(folder: string): Promise<Plan> {
  const [{ plan_id }] = await told(folder, 'list', '--ended', '--limit', '1')
  return told(folder, 'show', plan_id)
}

async function runsCommands(page: Page, block: Block, folder: string): Promise<string> {
  let printed = ''
  for (const [i, command] of block.text.trimEnd().split('\n').entries()) {
    const [, name] = /<(\w+)>/.exec(command) ?? []
    const place = name === undefined ? '' : await PLACES[name]!(folder)
    const { code, out, err } = await ran('sh', ['-c', command.replaceAll(/<\w+>/g, place)], folder)
    const expected = /#.*exit code (\d+)/.exec(command)?.[1] ?? '0'
    const where = `${page.path}:${block.line + i} ${command}`
    expect(`${where}\n${code === Number(expected) ? '' : out + err}exit code ${code}`).toBe(
      `${where}\nexit code ${expected}`,
    )
    printed += out
  }
  return printed
}

/** What a block shows as its output, if the next one is `text output`. */
function outputAfter({ blocks }: Page, block: Block): string {
  const next = blocks[blocks.indexOf(block) + 1]
  return next?.words.includes('output') ? next.text : ''
}

/** Every line that is shown was printed, in that order; ids, times and the width of columns are each reader's own. */
function prints(shown: string, printed: string): void {
  const promised = alike(shown)
  let at = 0
  for (const line of alike(printed)) if (line === promised[at]) at++
  expect(promised.slice(at)).toEqual([])
}

const alike = (text: string): readonly string[] =>
  text
    .split('\n')
    .map((line) => line.replaceAll(ID, 'id').replaceAll(TIME, 'time').replaceAll(/ +/g, ' ').trimEnd())
    .filter((line) => line !== '')
const ID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g
const TIME = /\d{4}-\d\d-\d\dT[\d:.]+Z/g

function ran(
  program: string,
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv = {},
): Promise<{ code: number; out: string; err: string }> {
  const path = [join(project, 'bin'), dirname(process.execPath), process.env.PATH].join(':')
  return new Promise((resolve) => {
    const options = { cwd, env: { PATH: path, HOME: cwd, ...env }, timeout: RUN_MS }
    const running = execFile(program, args, options, (error, out, err) =>
      resolve({ code: error ? (running.exitCode ?? -1) : 0, out, err }),
    )
  })
}

function broken(page: Page, target: string): readonly string[] {
  if (/^(https?|mailto):/.test(target)) return []
  const { path, anchor } = destination(page.path, target)
  if (!existsSync(join(ROOT, path))) return [`${target} is not there`]
  const known = byPath.get(path)?.anchors
  return anchor === undefined || known?.has(anchor) ? [] : [`${target} names no heading`]
}

const FOLDERS = /^(src|test|docs|examples|scripts|bench|golden-flows|schemas)\/[\w./*-]+$/
const VERBS = new Set(
  [...readFileSync(join(ROOT, 'src/cli/verbs.ts'), 'utf8').matchAll(/usage: '(\w+)/g)].map(([, verb]) => verb),
)

/** Paths of this repository, npm scripts and verbs of the command line, as far as something in backticks is one. */
function missing(code: string): readonly string[] {
  const [, script] = /^npm run (?:-s )?([\w:]+)/.exec(code) ?? []
  const [, verb] = /^mplp ([a-z]+)/.exec(code) ?? []
  if (FOLDERS.test(code) && !code.includes('*') && !existsSync(join(ROOT, code))) return [`${code} is not there`]
  if (script !== undefined && !(script in manifest.scripts)) return [`there is no script ${script}`]
  if (verb !== undefined && verb !== 'help' && !VERBS.has(verb)) return [`there is no verb ${verb}`]
  return []
}
