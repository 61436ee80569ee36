import { execFileSync } from 'node:child_process'
import { accessSync, constants, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { own } from './processes.ts'

const PROGRAMS = {
  redis: { file: 'redis-server', debian: 'redis-server' },
  postgres: { file: 'postgres', debian: 'postgresql' },
  java: { file: 'java', debian: 'default-jre-headless' },
  maven: { file: 'mvn', debian: 'maven' },
  kcat: { file: 'kcat', debian: 'kcat' },
} as const
export type Program = keyof typeof PROGRAMS

/** The program is not there and was not installed; `remedy` is the line to run. */
export class ProgramMissing extends Error {
  readonly remedy: string
  constructor(program: Program, why: string) {
    const remedy = `apt-get install ${PROGRAMS[program].debian}`
    super(`${PROGRAMS[program].file} is missing and ${why}; to have it, run: ${remedy}`)
    this.remedy = remedy
  }
}

/** The path of a server's program, which is installed if it is missing and we may. */
export async function binary(program: Program): Promise<string> {
  return find(program) ?? (await installed(program))
}

async function installed(program: Program): Promise<string> {
  const obstacle = whyNotInstall()
  if (obstacle) throw new ProgramMissing(program, obstacle)
  installing = installing.then(() => (find(program) ? undefined : install(program)))
  await installing
  const path = find(program)
  if (path) return path
  throw new ProgramMissing(
    program,
    `its Debian package could not be installed (${lastFailure || 'it holds no such file'})`,
  )
}

function find(program: Program): string | undefined {
  const { file } = PROGRAMS[program]
  const folders = (process.env.PATH ?? '').split(delimiter)
  if (program === 'postgres') folders.push(...debianPostgres())
  return folders.map((folder) => join(folder, file)).find(isExecutable)
}

/** Debian keeps the servers of Postgres out of PATH, in one folder per major version; the newest first. */
function debianPostgres(): string[] {
  const root = '/usr/lib/postgresql'
  try {
    return readdirSync(root)
      .sort((a, b) => Number(b) - Number(a))
      .map((version) => join(root, version, 'bin'))
  } catch {
    return [] // not Debian, or not installed
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function whyNotInstall(): string | undefined {
  if (process.env.MPLP_TEST_INSTALL === '0') return 'MPLP_TEST_INSTALL=0 forbids installing'
  if (process.getuid?.() !== 0) return 'only root may install'
  try {
    execFileSync('apt-get', ['--version'], { stdio: 'ignore' })
  } catch {
    return 'there is no apt-get'
  }
  return undefined
}

let installing: Promise<void> = Promise.resolve()
let updated = false
let lastFailure = ''

/** One at a time: apt holds a lock. A failure is told by whoever asked for the program. */
async function install(program: Program): Promise<void> {
  const { debian } = PROGRAMS[program]
  process.stderr.write(`installing ${debian} for the tests (MPLP_TEST_INSTALL=0 forbids it)\n`)
  if (!updated) await apt(['update'])
  updated = true
  await apt(['install', '-y', '--no-install-recommends', debian])
}

async function apt(args: readonly string[]): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const run = own('apt-get', ['-q', '-o', 'DPkg::Lock::Timeout=120', ...args], { env })
  const end = await run.exited
  if (end !== 'code 0') lastFailure = `apt-get ${args[0]}: ${run.lastWords.split('\n').at(-1)}`
}
