import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { A_DRIVER, isDriver } from '../golden/driver.ts'
import {
  compliance,
  type Driver,
  type FreshStore,
  inMemory,
  ownDriver,
  REPORTS,
  type ReportFormat,
  report,
  runGolden,
} from '../golden/golden.ts'
import { systemClock } from '../protocol/clock.ts'
import { InvalidInput, Refused } from '../protocol/errors.ts'
import { discardStore } from '../vsl/discard.ts'
import { openStore } from '../vsl/vsl.ts'
import { EXIT } from './io.ts'
import { storeNamed } from './load-config.ts'
import { readValue } from './read-value.ts'
import type { VerbCall } from './verb.ts'

const EMBEDDED = ['memory', 'file', 'sqlite']
const SERVERS = { redis: /^rediss?:/, postgres: /^postgres(ql)?:/ }

export async function run({ args, options, io }: VerbCall): Promise<number> {
  const format = options.reporter as ReportFormat
  if (!REPORTS.includes(format)) throw unknown('reporter', REPORTS)
  if (io.json && format !== 'human' && format !== 'json') throw unknown('reporter', ['json'], ' with --json')
  const servers = serversIn(options)
  if (options.all && options.backends !== EMBEDDED.join(','))
    throw unknown('backends', EMBEDDED, ', all of them, with --all')
  const named = (options.backends as string).split(',').map((name) => name.trim())
  const backends = [...named, ...servers.keys()]
  const isKnown = (name: string) => EMBEDDED.includes(name) || servers.has(name) || options.driver !== undefined // whose stores are its own
  if (!backends.every((name) => name !== '' && isKnown(name)))
    throw unknown('backends', EMBEDDED, '; --redis <url> and --postgres <url> add those')
  if (options.all)
    for (const name of Object.keys(SERVERS))
      if (!servers.has(name)) io.warn(`${name} was not met: name one with --${name} <url>`)
  const folder = await mkdtemp(join(tmpdir(), 'mplp-golden-')).catch((cause: NodeJS.ErrnoException) => {
    throw new Refused(`${tmpdir()} cannot be written to (${cause.code})`, 'name another folder with TMPDIR', { cause })
  })
  try {
    const golden = await runGolden({
      ...(args[0] !== undefined && { flows: resolve(io.cwd, args[0]) }),
      driver: await driverOf(options.driver, io.cwd, (backend) => fresh(backend, servers.get(backend), folder)),
      backends,
      ...(typeof options.filter === 'string' && { filter: options.filter }),
      signal: io.signal,
      onResult: ({ flow, backend }, done, all) => io.progress(`${done} of ${all}: ${flow} on ${backend}`),
    })
    if (golden.results.length === 0 && !io.signal.aborted)
      throw new InvalidInput('golden', [{ path: 'filter', rule: 'enum', message: NO_FLOW }])
    io.result({ compliance: compliance(golden), ...golden }, () => report(golden, format))
    if (golden.passed) return EXIT.done
    if (golden.results.every(({ status }) => status !== 'failed')) io.signal.throwIfAborted() // the rest was not run
    return EXIT.unverified
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function serversIn(options: VerbCall['options']): ReadonlyMap<string, string> {
  const servers = new Map<string, string>()
  for (const [name, scheme] of Object.entries(SERVERS)) {
    const url = options[name]
    if (typeof url !== 'string') continue
    if (!scheme.test(url))
      throw new InvalidInput('golden', [{ path: `--${name}`, rule: 'scheme', message: `is no ${name}://…` }])
    servers.set(name, storeNamed(`--${name}`, url).vsl)
  }
  return servers
}

async function driverOf(module: unknown, cwd: string, open: (backend: string) => Promise<FreshStore>): Promise<Driver> {
  if (typeof module !== 'string') return ownDriver({ open })
  const driver = await readValue(resolve(cwd, module))
  if (!isDriver(driver))
    throw new InvalidInput(module, [{ path: 'default', rule: 'driver', message: `is no ${A_DRIVER}` }])
  return driver
}

/** A store that nobody has used, in a folder that goes away, or under a prefix or schema of its own. That it may forget what it is told does not matter. */
async function fresh(backend: string, url: string | undefined, folder: string): Promise<FreshStore> {
  if (backend === 'memory') return inMemory(await openStore('memory:'))
  const name = `golden_${systemClock.uuid().replaceAll('-', '')}`
  if (url === undefined)
    return { open: () => openStore(`${backend}:${join(folder, name)}`), dispose: async () => undefined }
  const named = backend === 'redis' ? { prefix: name } : { schema: name }
  return {
    open: () => openStore(url, { ...named, onWarning: () => undefined }),
    dispose: () => discardStore(url, named),
  }
}

const NO_FLOW = 'is in the name of no flow, nor in that of its area or of a rule of it'

const unknown = (path: string, known: readonly string[], more = ''): InvalidInput =>
  new InvalidInput('golden', [{ path, rule: 'enum', message: `must be one of ${known.join(', ')}${more}` }])
