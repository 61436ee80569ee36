#!/usr/bin/env node
import { Command, CommanderError } from 'commander'
import { VERSION } from '../orchestrator/version.ts'
import { MplpError } from '../protocol/errors.ts'
import { EXIT, type Io, terminal } from './io.ts'
import type { Verb } from './verb.ts'
import { VERBS } from './verbs.ts'

process.exitCode = await main(process.argv.slice(2))

/** Parses, runs one verb, and says in one line what went wrong. */
async function main(argv: readonly string[]): Promise<number> {
  let code: number = EXIT.done
  const program = new Command('mplp')
    .description('The MPLP runtime: runs plans, keeps one graph of what happened, and proves it.')
    .version(VERSION)
    .option('--json', 'one JSON text per result, for scripts')
    .option('--store <url>', 'where the graph is kept, instead of what the config says')
    .option('--config <file>', 'the config file, instead of mplp.config.{ts,js,json}')
    .option('--no-color', 'no colours; NO_COLOR in the environment does the same')
    .exitOverride()
    .showSuggestionAfterError()
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'mplp: ')) })
  for (const verb of VERBS) register(program, verb, (done) => (code = done))
  try {
    await program.parseAsync(argv, { from: 'user' })
    return code
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage
    process.stderr.write(
      `mplp: ${error instanceof MplpError ? error.message : error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
    )
    return error instanceof MplpError && error.code === 'invalid_input' ? EXIT.usage : EXIT.failed
  }
}

function register(program: Command, verb: Verb, done: (code: number) => void): void {
  const words = verb.usage.split(' ')
  const at = words.findIndex((word) => word.startsWith('<') || word.startsWith('['))
  const names = at < 0 ? words : words.slice(0, at)
  const args = at < 0 ? [] : words.slice(at)
  const parent = names
    .slice(0, -1)
    .reduce((group, name) => group.commands.find((command) => command.name() === name) ?? group.command(name), program)
  const command = parent
    .command([names.at(-1)!, ...args].join(' '))
    .description(verb.says)
    .exitOverride()
  for (const [flags, says, fallback] of verb.options ?? []) command.option(flags, says, fallback)
  command.addHelpText('after', `\nExamples:\n${verb.examples.map((example) => `  ${example}`).join('\n')}`)
  command.action(async (...given: unknown[]) => {
    const {
      json = false,
      color,
      store,
      config,
    } = program.opts<{ json?: boolean; color: boolean; store?: string; config?: string }>()
    const io = ioOf({
      json,
      colour: color,
      ...(store !== undefined && { store }),
      ...(config !== undefined && { config }),
    })
    const { run } = await verb.load()
    done(
      await run({
        args: given.slice(0, args.length).filter((arg) => typeof arg === 'string'),
        options: command.opts(),
        io,
      }),
    )
  })
}

function ioOf(flags: { json: boolean; colour: boolean; store?: string; config?: string }): Io {
  const stop = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const)
    process.once(name, () => {
      stop.abort(new Error('interrupted'))
      process.once('SIGINT', () => process.exit(130))
    })
  return terminal({
    json: flags.json,
    colour: flags.colour && process.stdout.isTTY === true && process.env.NO_COLOR === undefined,
    out: process.stdout,
    err: process.stderr,
    cwd: process.cwd(),
    signal: stop.signal,
    config: async () => (await import('./load-config.ts')).loadConfig(process.cwd(), flags),
  })
}
