import { Command, CommanderError, Option } from 'commander'
import { InvalidInput, MplpError, NotFound, Refused, RuleViolation } from '../protocol/errors.ts'
import { firstOf } from '../protocol/first-of.ts'
import { VERSION } from '../protocol/version.ts'
import { EXIT, type Io, type Output, plainFor, terminal, unbroken } from './io.ts'
import type { Verb } from './verb.ts'
import { GROUPS, VERBS } from './verbs.ts'
import { FACTS } from './version.ts'

export interface World {
  readonly out: Output
  readonly err: Output
  readonly colour: boolean
  readonly now?: () => number
  /** Aborted when nobody reads `out` any more. Who only tells ends then; all others go on, since how they end still counts. */
  readonly enough?: AbortSignal
}

/** Parses, runs one verb, and says in one line what went wrong. Resolves with the exit code. */
export async function main(argv: readonly string[], world: World): Promise<number> {
  const { out, err } = world
  const json = argv.includes('--json') // which commander does not know of before it has read all, nor where it could not
  let [code, complaint]: [number, string] = [EXIT.done, '']
  const program = new Command('mplp')
    .description('The MPLP runtime: runs plans, keeps one graph of what happened, and proves it.')
    .version(json ? JSON.stringify(FACTS) : VERSION)
    .option('--json', 'one JSON text per result, for scripts')
    .option('--store <url>', 'where the graph is kept, instead of what the config says')
    .option('--config <file>', 'the config file, instead of mplp.config.{ts,js,mjs,json}')
    .option('--no-color', 'no colours; NO_COLOR in the environment does the same')
    .configureHelp({ showGlobalOptions: true })
    .exitOverride()
    .showSuggestionAfterError()
    .configureOutput({
      writeOut: (text) => out.write(text),
      writeErr: () => undefined, // help that nobody asked for; what is wrong goes the other way
      outputError: (text) => {
        complaint = text
          .replace(/^error: /, '')
          .trim()
          .replaceAll('\n', ' ')
      },
    })
  for (const verb of VERBS) register(program, verb, world, (done) => (code = done))
  try {
    const [first, ...words] = argv
    const asksHelp = first === 'help' && words.length > 0 // commander's own help knows one word
    // Of a verb that there is not, commander would show the help of all; without --help it says so.
    const asked = !asksHelp ? argv : isKnown(program, words) ? [...words, '--help'] : words
    await unlessStuck(program.parseAsync(asked, { from: 'user' }))
    return code
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.done
    if (error instanceof Unread) return EXIT.done
    const said =
      error instanceof CommanderError ? complained(program, argv, complaint) || incomplete(program, argv) : told(error)
    err.write(`${json ? JSON.stringify({ error: forPrograms(error, said) }) : `mplp: ${plainFor(err, said)}`}\n`)
    return error instanceof CommanderError || (error instanceof MplpError && error.code === 'invalid_input')
      ? EXIT.usage
      : EXIT.failed
  }
}

/** Where a config, an adapter of it or a flow waits for what never comes, Node would end with a code of its own and without a word. */
function unlessStuck(work: Promise<unknown>): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const stuck = () =>
      reject(
        new Refused('a promise that is awaited never settles', 'look for it in the config, its adapters and the flow'),
      )
    process.once('beforeExit', stuck)
    work.then(resolve, reject).finally(() => process.off('beforeExit', stuck))
  })
}

/** What we throw on purpose, or because of Ctrl-C, says all in its message; of anything else the stack is worth reporting. */
const told = (error: unknown): string =>
  error instanceof MplpError || error instanceof Interrupted
    ? unbroken(error.message + whereToLook(error))
    : error instanceof Error
      ? (error.stack ?? error.message)
      : String(error)

/** What shows what there is, of the kind that was not found under a name or an id. */
function whereToLook(error: Error): string {
  if (!(error instanceof NotFound) || !error.message.endsWith(error.id)) return '' // it says itself what to do
  const shows = Object.hasOwn(SHOWN_BY, error.what) ? SHOWN_BY[error.what] : undefined
  return shows === undefined ? '' : `; ${shows}`
}
const BY_ID =
  'give the whole id: mplp list shows runs that have not ended, mplp list --ended those that have, mplp events --json every id'
const SHOWN_BY: { readonly [what: string]: string } = {
  object: BY_ID,
  context: BY_ID,
  plan: BY_ID,
  run: BY_ID,
  confirm: 'mplp confirm list shows what waits',
  finding: 'mplp drift list shows what was found',
  snapshot: 'mplp snapshot list shows those of a context',
}

/** The same for who asked for JSON, with the code and the details by which a program decides what to do next. */
function forPrograms(error: unknown, message: string): object {
  if (error instanceof CommanderError) return { code: 'invalid_input', message, retryable: false }
  if (error instanceof Interrupted) return { code: 'interrupted', message, retryable: true }
  if (!(error instanceof MplpError)) return { code: 'internal', message, retryable: false }
  const { code, retryable } = error
  return {
    code,
    message,
    retryable,
    ...(error instanceof InvalidInput && { problems: error.problems }),
    ...(error instanceof RuleViolation && { violations: firstOf(error.violations) }),
  }
}

/** With where to look, where nothing that is known comes near. */
const complained = (program: Command, argv: readonly string[], complaint: string): string =>
  /^unknown command [^(]*$/.test(complaint)
    ? `${complaint}; mplp${ledTo(program, argv).said} --help shows all`
    : complaint

/** Which words may follow those that were given. */
function incomplete(program: Command, argv: readonly string[]): string {
  const { group, said } = ledTo(program, argv)
  return `${said === '' ? 'a verb' : `after${said} a word`} is missing: one of ${group.commands.map((command) => command.name()).join(', ')}`
}

/** Where the words lead that are known, and those words. */
function ledTo(program: Command, argv: readonly string[]): { readonly group: Command; readonly said: string } {
  let [group, said]: [Command, string] = [program, '']
  for (const word of argv) {
    const next = known(group, word)
    if (next) [group, said] = [next, `${said} ${word}`]
  }
  return { group, said }
}

function register(program: Command, verb: Verb, world: World, done: (code: number) => void): void {
  const words = verb.usage.split(' ')
  const at = words.findIndex((word) => word.startsWith('<') || word.startsWith('['))
  const names = at < 0 ? words : words.slice(0, at)
  const args = at < 0 ? [] : words.slice(at)
  const parent = names.slice(0, -1).reduce((group, name) => known(group, name) ?? grouped(group, name), program)
  const command = parent.command([names.at(-1)!, ...args].join(' ')).description(verb.says)
  for (const { flags, says, fallback, choices } of verb.options ?? []) {
    const option = new Option(flags, says)
    if (fallback !== undefined) option.default(fallback)
    if (choices) option.choices(choices)
    command.addOption(option)
  }
  command.addHelpText('after', `\nExamples:\n${verb.examples.map((example) => `  ${example}`).join('\n')}`)
  command.action(async (...given: unknown[]) => {
    refuseEmpty([program, command], given.slice(0, args.length), args)
    const { io, over, end } = ioOf(program.opts<Flags>(), world)
    if (verb.onlyTells) world.enough?.addEventListener('abort', end)
    try {
      const { run } = await verb.load()
      const texts = given.slice(0, args.length).filter((arg) => typeof arg === 'string')
      done(await run({ args: texts, options: command.opts(), io }))
    } finally {
      over()
    }
  })
}

/** A variable that is not set, as in `--redis "$URL"`, is an empty text: whoever writes it means something. */
function refuseEmpty(commands: readonly Command[], given: readonly unknown[], names: readonly string[]): void {
  const flags = commands.flatMap((command) =>
    command.options
      .filter((option) => [command.getOptionValue(option.attributeName())].flat().includes(''))
      .map(({ long }) => long!),
  )
  const words = names.filter((_, i) => given[i] === '')
  const problems = [...words, ...flags].map((path) => ({ path, rule: 'text', message: 'is empty' }))
  if (problems.length > 0) throw new InvalidInput('the command line', problems)
}

const known = (group: Command, name: string): Command | undefined =>
  group.commands.find((command) => command.name() === name)

/** Do the words lead to a verb or a group? What stands behind a verb does not matter. */
function isKnown(group: Command, [word, ...rest]: readonly string[]): boolean {
  if (word === undefined || group.commands.length === 0 || word.startsWith('-')) return true
  const next = known(group, word)
  return next !== undefined && isKnown(next, rest)
}

const grouped = (group: Command, name: string): Command => group.command(name).description(GROUPS[name] ?? '')

interface Flags {
  readonly json?: boolean
  readonly color: boolean
  readonly store?: string
  readonly config?: string
}

/** The first signal asks to finish what is in hand, the next Ctrl-C ends the process. */
function ioOf({ json = false, color, ...files }: Flags, world: World): Opened {
  const cwd = workingFolder()
  const stop = new AbortController()
  const abort = () => process.exit(130)
  const interrupt = () => {
    if (stop.signal.aborted) return
    stop.abort(new Interrupted('interrupted'))
    process.on('SIGINT', abort)
    io.warn('finishing what is in hand; Ctrl-C again ends it at once')
  }
  for (const name of SIGNALS) process.on(name, interrupt)
  const io = terminal({
    json,
    colour: color && world.colour,
    out: world.out,
    err: world.err,
    cwd,
    signal: stop.signal,
    now: world.now,
    config: async () => (await import('./load-config.ts')).loadConfig(cwd, files),
  })
  const over = () => {
    io.clear()
    for (const name of SIGNALS) process.off(name, interrupt)
    process.off('SIGINT', abort)
  }
  return { io, over, end: () => stop.abort(new Unread()) }
}

function workingFolder(): string {
  try {
    return process.cwd()
  } catch (cause) {
    throw new Refused('the working directory is gone', 'change to one that is there', { cause })
  }
}

interface Opened {
  readonly io: Io
  /** Listens to no signal any more, and leaves an empty line to whoever says how it ended. */
  readonly over: () => void
  /** Ends it as the first Ctrl-C would, without a word. */
  readonly end: () => void
}

/** The reason why work ended that Ctrl-C has ended. */
class Interrupted extends Error {}

/** The reason why who only tells has ended when nobody reads on. */
class Unread extends Error {}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const
