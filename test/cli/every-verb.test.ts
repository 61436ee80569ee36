import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import Database from 'libsql'
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { run as init } from '../../src/cli/init.ts'
import { terminal } from '../../src/cli/io.ts'
import { main } from '../../src/cli/program.ts'
import { VERBS } from '../../src/cli/verbs.ts'
import type { Plan } from '../../src/protocol/types.ts'
import { openStore } from '../../src/vsl/vsl.ts'
import { flowOf } from '../support/flows.ts'
import { freePort } from '../support/private-server.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { mplpHere } from './here.ts'
import { type Ended, mplp, oneLine } from './mplp.ts'

/** Those that neither open the store nor read the config. */
const ALONE = new Set(['init', 'evidence verify <folder>', 'golden [folder]', 'version'])
const STORELESS = new Set([...ALONE, 'config print'])
/** Those that make the store if it is not there. */
const MAKERS = new Set(['run <flow>', 'watch [folder]', 'drift scan [folder]', 'serve'])
const wordsOf = (usage: string) => usage.split(' ').filter((word) => !/^[<[]/.test(word))
const neededBy = (usage: string) => usage.split(' ').filter((word) => word.startsWith('<'))
/** Words that it takes for what it needs, if nothing of the kind is there. */
const someFor = (usage: string) =>
  neededBy(usage).map((word) => (!usage.startsWith('store') ? 'x' : word === '<to>' ? 'memory:' : '90d'))
const takesSomething = ({ usage, options = [] }: (typeof VERBS)[number]) =>
  /[<[]/.test(usage) || options.some(({ flags }) => flags.includes('<'))

/** A project in which something has run, drifted, failed and waits. */
interface Given {
  readonly folder: string
  readonly plan: string
  readonly step: string
  readonly context: string
  readonly waiting: string
  readonly confirm: string
  /** A plan whose one step waits for the signal `paid`. */
  readonly held: string
}
let given: Given

beforeAll(async () => {
  const folder = tempFolder()
  await mplpHere(folder, ['init'])
  const ran = await mplpHere(folder, ['run', 'flow.json', '--json'])
  const { plan_id, context_id, steps } = JSON.parse(ran.out)
  const read = { binding: { action_type: 'file_operation', params: { operation: 'read', path: 'hello.txt' } } }
  writeFileSync(join(folder, 'asks.json'), JSON.stringify(flowOf({ read }, { approval: { reason: 'really?' } })))
  const asked = JSON.parse((await mplpHere(folder, ['run', 'asks.json', '--json'])).out)
  const paid = { binding: { action_type: 'wait', params: { signal: 'paid' } } }
  writeFileSync(join(folder, 'waits.json'), JSON.stringify(flowOf({ paid })))
  const held = JSON.parse((await mplpHere(folder, ['run', 'waits.json', '--json'])).out)
  writeFileSync(join(folder, 'again.yaml'), JSON.stringify(flowOf({ read })))
  await mplpHere(folder, ['snapshot', 'create', context_id, 'first'])
  writeFileSync(join(folder, 'hello.txt'), 'edited\n')
  await mplpHere(folder, ['drift', 'scan'])
  given = {
    folder,
    plan: plan_id,
    step: steps.write,
    context: context_id,
    waiting: asked.plan_id,
    confirm: asked.confirms[0],
    held: held.plan_id,
  }
}, 120_000)

/** A call of each verb that works, and how it ends; in this order, since some change what others look at. */
const GOOD: { readonly [usage: string]: (at: Given) => { args: readonly string[]; code?: number; until?: string } } = {
  init: () => ({ args: [] }),
  'run <flow>': () => ({ args: ['again.yaml', '--events'] }),
  list: () => ({ args: [] }),
  'show <id>': ({ plan }) => ({ args: [plan] }),
  'why <id>': ({ step }) => ({ args: [step] }),
  'history <id>': ({ step }) => ({ args: [step] }),
  'graph <id>': ({ context }) => ({ args: [context, '--dot'] }),
  events: ({ plan }) => ({ args: ['--plan', plan, '--family', 'pipeline_stage'] }),
  'confirm list': () => ({ args: [] }),
  'snapshot create <context> <name>': ({ context }) => ({ args: [context, 'second'] }),
  'snapshot list <context>': ({ context }) => ({ args: [context] }),
  'snapshot diff <context> <from> [to]': ({ context }) => ({ args: [context, 'first', 'second'] }),
  'snapshot restore <context> <to>': ({ context }) => ({ args: [context, 'second', '--dry-run'] }),
  'drift scan [folder]': () => ({ args: [], code: 3 }),
  'drift list [folder]': () => ({ args: ['.'] }),
  'drift diff <finding> [folder]': () => ({ args: ['hello.txt'] }),
  'drift reconcile <finding> [folder]': () => ({ args: ['hello.txt', '--strategy', 'graph'] }),
  'watch [folder]': () => ({ args: ['--strategy', 'files'], until: 'watching' }),
  'rollback <run>': ({ plan }) => ({ args: [plan, '--dry-run'] }),
  'evidence export <run> <folder>': ({ plan }) => ({ args: [plan, 'evidence'] }),
  'evidence verify <folder>': () => ({ args: ['evidence'] }),
  'store verify [context]': ({ context }) => ({ args: [context] }),
  'store copy <to>': () => ({ args: ['file:./.mplp/copy', '--without-ended', '0d'] }),
  'store reindex [context]': ({ context }) => ({ args: [context] }),
  'store trim <before>': () => ({ args: ['0d', '--dry-run'] }),
  'store stats': () => ({ args: [] }),
  'golden [folder]': () => ({ args: ['--backends', 'memory', '--filter', 'approval-withdrawn'] }),
  doctor: () => ({ args: [] }),
  serve: () => ({ args: ['--port', '0'], until: 'url' }),
  'config print': () => ({ args: ['--effective'] }),
  version: () => ({ args: [] }),
  'confirm reject <id>': ({ confirm }) => ({ args: [confirm, '--reason', 'no'] }),
  'propose <id>': ({ waiting }) => ({ args: [waiting] }),
  'pause <id>': ({ held }) => ({ args: [held] }),
  'resume [id]': ({ held }) => ({ args: [held], code: 2 }), // it waits again
  'signal <id> <name>': ({ held }) => ({ args: [held, 'paid', '--payload', '{"amount":12}'] }),
  'cancel <id>': ({ waiting }) => ({ args: [waiting] }),
  'rerun <run>': ({ waiting }) => ({ args: [waiting, '--approve', 'lead', '--reason', 'once more'] }), // of what was cancelled
  'confirm approve <id>': ({ confirm }) => ({ args: [confirm], code: 1 }), // it is over by now: approving is in cli.test.ts
}

/** Calls that cannot be meant, with what the one line says. */
const BAD: { readonly [usage: string]: readonly (readonly [args: readonly string[], code: number, says: string])[] } = {
  'run <flow>': [
    [['absent.json'], 64, 'absent.json is not valid: it does not exist'],
    [['broken.json'], 64, 'cannot be understood: Unexpected end of JSON input at line 1'],
    [
      ['broken.yaml'],
      64,
      'plan cannot be understood at line 1, column 8: a list is begun and not ended; end it with ]',
    ],
    [['throws.mjs'], 64, 'cannot be loaded: thrown on purpose'],
    [['throwing.mjs'], 64, 'cannot be called: thrown on purpose'],
    [['flow.txt'], 64, 'is none of .json'],
    [['shapeless.json'], 64, 'plan'],
    [
      ['whole.json', '--detach', '--approve', 'lead', '--events'],
      64,
      '--approve means nothing with --detach; --events',
    ],
    [['shapeless.json', '--approve'], 64, "option '--approve <role>' argument missing"],
  ],
  'show <id>': [
    [
      ['absent'],
      1,
      'there is no object absent; give the whole id: mplp list shows runs that have not ended, mplp list --ended those that have, mplp events --json every id',
    ],
    [['absent', '--config', 'throwing.mjs'], 64, 'cannot be called: thrown on purpose'],
  ],
  'why <id>': [[['absent'], 1, 'there is no object absent']],
  'history <id>': [[['absent'], 1, 'there is no object absent']],
  'graph <id>': [[['absent', '--dot'], 1, 'there is no object absent']],
  events: [
    [['--after', 'nonsense'], 64, '--after is no position of this store; mplp events --json shows them'],
    [['--family', 'pipline_stage'], 64, 'family is none of import_process'],
    [['--plan', 'absent'], 1, 'there is no plan absent'],
  ],
  'confirm list': [
    [['--limit', '0'], 64, '--limit must be a whole number of at least 1'],
    [['--limit', 'all'], 64, '--limit must be a whole number'],
  ],
  'confirm approve <id>': [[['absent'], 1, 'there is no confirm absent; mplp confirm list shows what waits']],
  'confirm reject <id>': [[['absent'], 1, 'there is no confirm absent']],
  'signal <id> <name>': [
    [['absent', 'paid'], 1, 'there is no run absent'],
    [['absent', 'paid', '--payload', '{'], 64, '--payload is not valid: it is not JSON'],
  ],
  'propose <id>': [[['absent'], 1, 'there is no plan absent']],
  list: [
    [['--limit', '3'], 64, '--limit goes with --ended'],
    [['--ended', '--status', 'running'], 64, 'Allowed choices are completed, failed, cancelled'],
    [['--ended', '--limit', 'all'], 64, '--limit must be a whole number'],
  ],
  'rerun <run>': [
    [['absent'], 1, 'there is no run absent'],
    [['absent', '--options', '{'], 64, '--options is not valid: it is not JSON'],
    [['absent', '--detach', '--events'], 64, '--events means nothing with --detach'],
  ],
  'pause <id>': [[['absent'], 1, 'there is no run absent']],
  'resume [id]': [[['absent'], 1, 'there is no run absent']],
  'cancel <id>': [[['absent'], 1, 'there is no run absent']],
  'rollback <run>': [[['absent'], 1, 'there is no run absent']],
  'snapshot create <context> <name>': [
    [['absent', 'x'], 1, 'there is no context absent'],
    [['absent', '2'], 64, 'name is a number, which names a revision'],
  ],
  'snapshot list <context>': [[['absent'], 1, 'there is no context absent']],
  'snapshot diff <context> <from> [to]': [[['absent', '1'], 1, 'there is no context absent']],
  'snapshot restore <context> <to>': [[['absent', '1'], 1, 'there is no context absent']],
  'watch [folder]': [
    [['absent'], 64, 'absent is not valid: it is no folder'],
    [['--strategy', 'guess'], 64, 'Allowed choices are graph, files, merge, ask'],
    [['--context', 'absent'], 1, 'there is no context absent'],
  ],
  'drift scan [folder]': [[['absent'], 64, 'is no folder']],
  'drift list [folder]': [
    [['absent'], 64, 'is no folder'],
    [['--context', 'absent'], 1, 'there is no context absent'],
  ],
  'drift diff <finding> [folder]': [[['absent'], 1, 'there is no finding absent']],
  'drift reconcile <finding> [folder]': [
    [['absent'], 1, 'there is no finding absent; mplp drift list shows what was found'],
    [['all', '--strategy', 'guess'], 64, 'Allowed choices are'],
  ],
  'evidence export <run> <folder>': [[['absent', 'out'], 1, 'absent']],
  'evidence verify <folder>': [[['absent'], 64, 'is no folder']],
  'store verify [context]': [[['absent'], 1, 'there is no context absent']],
  'store reindex [context]': [[['absent'], 1, 'there is no context absent']],
  'store copy <to>': [
    [['mysql://localhost'], 64, '<to> begins with none of memory:'],
    [
      ['memory:', '--without-ended', 'March'],
      64,
      '--without-ended must be a day (2026-08-01), a time with a zone, or how long ago (90d, 12h, 30m)',
    ],
    [['memory:', '--without-ended', '2026-02-30'], 64, '--without-ended must be a day'],
    [['memory:', '--without-ended', '800000d'], 64, '--without-ended must be a day'],
    [['memory:', '--forget-bus', 'old'], 64, '--forget-bus goes with --without-ended'],
    [['memory:', '--without-ended', '1d', '--forget-bus', 'old'], 1, 'there is no bus old'],
    [['memory:', '--key-env', 'NOT_SET_ANYWHERE'], 64, '--key-env names NOT_SET_ANYWHERE, which is not set'],
    [['memory:', '--key-env', 'PATH'], 64, '--key-env names PATH, which is not 32 bytes as base64'],
    [['memory:', '--decrypt', '--key-env', 'PATH'], 64, '--decrypt does not go with --key-env'],
    [['memory:', '--decrypt'], 64, '--decrypt needs the key of the store, as MPLP_ENCRYPTION_KEY'],
  ],
  'store trim <before>': [
    [['March'], 64, '<before> must be a day (2026-08-01), a time with a zone, or how long ago (90d, 12h, 30m)'],
    [['1d', '--forget-bus', 'old'], 1, 'there is no bus old'],
  ],
  'golden [folder]': [
    [['--reporter', 'loud'], 64, 'reporter must be one of human, json'],
    [['--filter', 'nothing at all'], 64, 'filter is in the name of no flow'],
    [['--all', '--backends', 'memory'], 64, 'all of them, with --all'],
    [['--redis', 'postgres://localhost/x'], 64, '--redis is no redis://'],
    [['--redis', 'redis://localhost/x'], 64, '--redis has a path that is not the number of a database'],
    [['--postgres', 'localhost'], 64, '--postgres is no postgres://'],
    [['--backends', 'redis'], 64, '--redis <url> and --postgres <url> add those'],
    [['--driver', 'absent.mjs'], 64, 'absent.mjs is not valid: it does not exist'],
    [['--driver', 'throws.mjs'], 64, 'cannot be loaded: thrown on purpose'],
    [['absent'], 64, 'absent'],
  ],
  serve: [
    [['--port', 'many'], 64, '--port must be a whole number'],
    [['--port', '70000'], 64, '--port must be a whole number'],
    [['--host', '0.0.0.0'], 1, 'give server.tokens'],
  ],
}

/** Of a choice the command line itself says what it may be. */
const optionSaid = (flag: string): string =>
  flag === '--strategy' || flag === '--status' ? 'Allowed choices are' : `${flag} is empty`

const inOneLine = ({ code, out, err }: Ended, expected: number, says: string) => {
  expect({ code, out }).toEqual({ code: expected, out: '' })
  expect(oneLine({ code, out, err })).toMatch(/^mplp: /)
  expect(err).toContain(says)
}

describe.each(VERBS.map((verb) => [verb.usage, verb] as const))('mplp %s', (usage, verb) => {
  const words = wordsOf(usage)

  it('has help with examples', async () => {
    const helped = await mplpHere(given.folder, [...words, '--help'])
    expect(helped).toMatchObject({ code: 0, err: '' })
    expect(verb.examples.length).toBeGreaterThan(0)
    for (const example of verb.examples) {
      expect(helped.out).toContain(example)
      expect(example).toContain(`mplp ${words.join(' ')}`)
    }
    for (const { flags } of verb.options ?? []) expect(helped.out).toContain(flags)
    for (const flags of ['--json', '--store <url>', '--config <file>']) expect(helped.out).toContain(flags)
    expect(await mplpHere(given.folder, ['help', ...words])).toEqual(helped)
  })

  it('refuses too few words, too many, and options it does not know', async () => {
    const needed = neededBy(usage)
    const many = Array.from({ length: 5 }, () => 'x')
    if (needed.length > 0) inOneLine(await mplpHere(given.folder, words), 64, 'missing required argument')
    inOneLine(await mplpHere(given.folder, [...words, ...many]), 64, 'too many arguments')
    inOneLine(await mplpHere(given.folder, [...words, ...needed, '--nope']), 64, "unknown option '--nope'")
  })

  if (takesSomething(verb))
    it('refuses what cannot be meant, and leaves nothing behind', async () => {
      expect(BAD).toHaveProperty([usage])
      const folder = tempFolder()
      writeFileSync(join(folder, 'broken.json'), '{ "plan": ')
      writeFileSync(join(folder, 'broken.yaml'), 'plan: [')
      writeFileSync(join(folder, 'throws.mjs'), "throw new Error('thrown on purpose\\nin two lines')")
      writeFileSync(join(folder, 'throwing.mjs'), "export default async () => { throw new Error('thrown on purpose') }")
      writeFileSync(join(folder, 'flow.txt'), '')
      writeFileSync(join(folder, 'whole.json'), JSON.stringify(flowOf({ one: {} })))
      writeFileSync(join(folder, 'shapeless.json'), '{ "plan": 7 }')
      const before = readdirSync(folder)
      for (const [args, code, says] of BAD[usage]!) {
        const own = args.includes('--store') ? [] : ['--store', 'memory:']
        inOneLine(await mplpHere(folder, [...words, ...args, ...own]), code, says)
      }
      expect(readdirSync(folder)).toEqual(before)
    })

  it('refuses an empty text, which is a variable that is not set', async () => {
    const folder = tempFolder()
    const taken = usage.split(' ').filter((word) => /^[<[]/.test(word))
    const options = (verb.options ?? [])
      .filter(({ flags }) => flags.includes('<'))
      .map(({ flags }) => flags.split(' ')[0]!)
    const needed = someFor(usage)
    for (const [i, word] of taken.entries())
      inOneLine(
        await mplpHere(folder, [...words, ...taken.map((_, at) => (at === i ? '' : 'x'))]),
        64,
        `${word} is empty`,
      )
    for (const flag of [...options, '--store', '--config'])
      inOneLine(await mplpHere(folder, [...words, ...needed, flag, '']), 64, optionSaid(flag))
    expect(readdirSync(folder)).toEqual([])
  })

  if (!ALONE.has(usage))
    it('refuses a config that is not there or has a key nobody knows', async () => {
      const folder = tempFolder()
      const args = [...words, ...someFor(usage)]
      writeFileSync(join(folder, 'x'), '')
      if (usage === 'run <flow>') writeFileSync(join(folder, 'x.json'), JSON.stringify(flowOf({ one: {} })))
      const called = usage === 'run <flow>' ? ['run', 'x.json'] : args
      const absent = await mplpHere(folder, [...called, '--config', 'absent.json'])
      writeFileSync(join(folder, 'odd.json'), '{ "vsl": "memory:", "server": { "prot": 1 } }')
      const odd = await mplpHere(folder, [...called, '--config', 'odd.json'])
      if (usage === 'doctor') {
        expect([absent, odd]).toMatchObject([{ code: 1 }, { code: 1 }]) // it tells as a finding what is wrong
        expect(odd.out).toContain('did you mean port?')
        return
      }
      inOneLine(absent, 64, 'does not exist')
      inOneLine(odd, 64, 'server.prot is not known; did you mean port?')
    })

  if (!STORELESS.has(usage) && !MAKERS.has(usage))
    it('says that there is no store, and makes none', async () => {
      const folder = tempFolder()
      const ended = await mplpHere(folder, [...words, ...someFor(usage)])
      if (usage === 'doctor')
        expect(ended).toMatchObject({ code: 0, out: expect.stringContaining('there is no store') })
      else inOneLine(ended, 1, 'there is no store sqlite:./.mplp/state.db; mplp run makes it')
      expect(readdirSync(folder)).toEqual([])
    })

  if (!STORELESS.has(usage))
    it('refuses a store of a newer version, and leaves it as it is', async () => {
      const folder = tempFolder()
      const path = join(folder, 'newer.db')
      writeFileSync(join(folder, 'x'), '')
      writeFileSync(join(folder, 'x.json'), JSON.stringify(flowOf({ one: {} })))
      await (await openStore(`sqlite:${path}`)).close()
      const db = new Database(path)
      db.exec('PRAGMA user_version = 999; PRAGMA wal_checkpoint(TRUNCATE)')
      db.close()
      const before = readFileSync(path)
      const args = usage === 'run <flow>' ? ['x.json'] : someFor(usage)
      const refused = await mplpHere(folder, [...words, ...args, '--store', `sqlite:${path}`])
      if (usage === 'doctor') {
        expect(refused.code).toBe(1)
        expect(refused.out).toContain('newer version')
      } else inOneLine(refused, 1, 'was written by a newer version')
      expect(readFileSync(path).equals(before)).toBe(true)
    })
})

describe('--json', () => {
  it('has a call of every verb to be tried with', () => {
    expect(Object.keys(GOOD).sort()).toEqual(VERBS.map(({ usage }) => usage).sort())
  })

  it.each(Object.keys(GOOD))(
    'is what mplp %s prints, and nothing else',
    async (usage) => {
      const { args, code = 0, until } = GOOD[usage]!(given)
      const folder = usage === 'init' ? tempFolder() : given.folder
      const call = [...wordsOf(usage), ...args, '--json']
      // Golden flows end the process that ran them.
      const ended = usage.startsWith('golden') ? await mplp(folder, call) : await mplpHere(folder, call, until)
      const err = ended.err.replace(/^\{"warning":\{"message":"finishing what is in hand[^"]*"\}\}\n/, '')
      expect({ code: ended.code, err: code === 1 ? '' : err }).toEqual({ code, err: '' })
      const lines = ended.out.split('\n').filter((line) => line !== '')
      expect(lines.length).toBeGreaterThan(code === 1 ? -1 : 0)
      for (const line of lines) expect(() => JSON.parse(line)).not.toThrow()
    },
    60_000,
  )

  it.each([
    [
      ['show', 'absent'],
      1,
      { code: 'not_found', message: expect.stringMatching(/^there is no object absent; /), retryable: false },
    ],
    [['list', '--store', 'redis://127.0.0.1:1'], 1, { code: 'unavailable', retryable: true }],
    [['events', '--after', 'x'], 64, { code: 'invalid_input', problems: [{ path: '--after', rule: 'position' }] }],
    [['run'], 64, { code: 'invalid_input', message: "missing required argument 'flow'" }],
    [['list', '--nope'], 64, { code: 'invalid_input', message: "unknown option '--nope'" }],
    [[], 64, { code: 'invalid_input', message: expect.stringContaining('a verb is missing') }],
  ])('has what went wrong in one JSON text of its own: mplp %j', async (args, code, error) => {
    const refused = await mplpHere(given.folder, [...args, '--json'])
    expect({ ...refused, err: JSON.parse(refused.err) }).toMatchObject({ code, out: '', err: { error } })
  })

  it('has every rule that was broken', async () => {
    await mplpHere(given.folder, ['confirm', 'reject', given.confirm])
    const refused = await mplpHere(given.folder, ['confirm', 'approve', given.confirm, '--json'])
    const violations = expect.arrayContaining([expect.objectContaining({ rule: 'decision.allowed' })])
    const error = { code: 'rule_violation', violations }
    expect({ ...refused, err: JSON.parse(refused.err) }).toMatchObject({ code: 1, out: '', err: { error } })
  })
})

describe('the words themselves', () => {
  it('are asked for when they are missing, and suggested when they are misspelt', async () => {
    inOneLine(await mplpHere(given.folder, []), 64, 'a verb is missing: one of init, run')
    inOneLine(
      await mplpHere(given.folder, ['confirm']),
      64,
      'after confirm a word is missing: one of list, approve, reject',
    )
    inOneLine(await mplpHere(given.folder, ['rnu', 'flow.json']), 64, "unknown command 'rnu' (Did you mean run?)")
    inOneLine(await mplpHere(given.folder, ['confirm', 'aprove', 'x']), 64, 'approve')
  })
})

describe('help', () => {
  it('says of every word what it is for', async () => {
    const { out } = await mplpHere(given.folder, ['--help'])
    const commands = out.slice(out.indexOf('Commands:')).trim().split('\n').slice(1)
    for (const line of commands.filter((line) => /^ {2}\S/.test(line))) expect(line).toMatch(/^ {2}\S.* {2,}\S/)
  })
})

describe('what cannot be meant', () => {
  it.each([
    ['serve --port many', '--port', '"many"'],
    ['serve --port 0x10', '--port', '"0x10"'],
    ['serve --port=-1', '--port', '"-1"'],
    ['serve --port 70000', '--port', '70000'],
    ['list --ended --limit all', '--limit', '"all"'],
    ['list --ended --limit 1e1', '--limit', '"1e1"'],
    ['list --ended --limit 0', '--limit', '0'],
  ])('is found as it was given: mplp %s', async (call, path, found) => {
    const { code, err } = await mplpHere(tempFolder(), [...call.split(' '), '--json'])
    expect(code).toBe(64)
    expect(JSON.parse(err).error.problems).toMatchObject([{ path, found }])
  })

  it.each([
    ['run flow.json', 64, 'plan_id is required'],
    ['drift scan absent', 64, 'is no folder that can be read: make it first'],
    ['drift scan flow.json', 64, 'flow.json is not valid: it is no folder that can be read: it is a file'],
    ['watch absent', 64, 'is no folder that can be read: make it first'],
    ['serve --port many', 64, '--port must be a whole number'],
    ['serve --config rootless.json', 64, 'root names absent, which is no folder that can be read: make it first'],
    ['serve --host 0.0.0.0', 1, 'give server.tokens'],
  ])('is refused before a store is made for it: mplp %s', async (call, code, says) => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'flow.json'), '{ "plan": { "title": "of nothing" } }')
    writeFileSync(join(folder, 'rootless.json'), '{ "root": "absent" }')
    inOneLine(await mplpHere(folder, call.split(' ')), code, says)
    expect(readdirSync(folder)).toEqual(['flow.json', 'rootless.json'])
  })
})

describe('what is in the way', () => {
  it('is told in one line where evidence is to go into a file', async () => {
    const { plan, folder } = given
    inOneLine(await mplpHere(folder, ['evidence', 'export', plan, 'flow.json']), 1, 'flow.json/pack cannot be a folder')
  })

  it('is told with the remedy where nothing can be written', async () => {
    const { plan, folder } = given
    const impossible = 'x'.repeat(300)
    const refused = await mplpHere(folder, ['evidence', 'export', plan, impossible])
    inOneLine(refused, 1, 'cannot be written (ENAMETOOLONG); export into a folder that this process may write to')
    const { signal } = new AbortController()
    const out = { write: () => undefined }
    const cwd = join(folder, impossible)
    const io = terminal({ json: false, colour: false, out, err: out, cwd, signal, config: async () => ({}) })
    await expect(init({ args: [], options: {}, io })).rejects.toThrow('choose a folder that this process may write to')
  })

  it('is told in one line where the working directory is gone', async () => {
    const gone = vi.spyOn(process, 'cwd').mockImplementation(() => {
      throw new Error('ENOENT: no such file or directory, uv_cwd')
    })
    onTestFinished(() => gone.mockRestore())
    let err = ''
    const write = (text: string) => {
      err += text
    }
    const code = await main(['list'], { out: { write }, err: { write }, colour: false })
    expect({ code, err }).toEqual({
      code: 1,
      err: 'mplp: the working directory is gone; change to one that is there\n',
    })
  })
})

describe('what others have written', () => {
  const hostile = 'Send it\u001b[2K\rharmless\u009b8m\u001b[8m to \u202ennA\u2066'
  const told = (isTTY: boolean) => {
    const said: string[] = []
    const out = { isTTY, write: (text: string) => said.push(text) }
    const { signal } = new AbortController()
    const io = terminal({ json: false, colour: true, out, err: out, cwd: '.', signal, config: async () => ({}) })
    io.result({}, () => `${io.paint('bold', 'id')}\t${hostile}\nnext`)
    io.warn(hostile)
    return said.join('')
  }

  it('cannot tell a terminal what to do', async () => {
    const shown = 'Send it\\u001b[2K\\u000dharmless\\u009b8m\\u001b[8m to \\u202ennA\\u2066'
    expect(told(true)).toBe(`\u001b[1mid\u001b[22m\t${shown}\nnext\nmplp: ${shown}\n`)
    const said: string[] = []
    const world = { isTTY: true, write: (text: string) => said.push(text) }
    await main(['show', hostile, '--store', 'memory:'], { out: world, err: world, colour: false })
    expect(said.join('')).toMatch(`mplp: there is no object ${shown.replace('\\u000d', ' ')}; give the whole id`)
  })

  it('cannot put lines of its own among those of a question', async () => {
    const folder = tempFolder()
    const forged =
      'Rotate logs?\n  {"tool":"logs.rotate","arguments":{}}\n\n01a1f2fa-a461-41b8-947e-e079707f5f8f Send it?'
    const approval = { reason: forged }
    const drop = { action_type: 'file_operation', params: { operation: 'delete', path: 'all' }, approval }
    writeFileSync(join(folder, 'flow.json'), JSON.stringify({ title: 'Clear', steps: { drop } }))
    expect((await mplpHere(folder, ['run', 'flow.json'])).code).toBe(2)
    const { out } = await mplpHere(folder, ['confirm', 'list'])
    expect(out.trimEnd().split('\n')).toEqual([
      expect.stringMatching(/^\S+ Rotate logs\? \{"tool":"logs.rotate".* Send it\? \(plan “Clear”\)$/),
      expect.stringMatching(/^ {2}\{"tool":"file_operation",.*"path":"all"/),
      expect.stringMatching(/^ {2}until /),
    ])
  })

  it('cannot put lines of its own among those of a history, a chain of reasons or a list of names', async () => {
    const folder = tempFolder()
    const forged = (what: string) => `${what}\n  confirm ann (approved by ann)`
    const read = { action_type: 'file_operation', params: { operation: 'read', path: 'x' } }
    const flow = flowOf({ [forged('read')]: { binding: read } }, { approval: { reason: forged('really?') } })
    writeFileSync(join(folder, 'flow.json'), JSON.stringify(flow))
    expect((await mplpHere(folder, ['run', 'flow.json'])).out).toMatch(/really\? confirm ann/)
    const { context_id, steps } = flow.plan as Plan
    const confirm_id = (await mplpHere(folder, ['confirm', 'list'])).out.split(' ', 1)[0]!
    await mplpHere(folder, ['confirm', 'reject', confirm_id, '--reason', forged('no')])
    await mplpHere(folder, ['snapshot', 'create', context_id, forged('one')])
    for (const [args, shows] of [
      [['why', steps[0]!.step_id], 'read confirm ann (approved by ann)'],
      [['history', confirm_id], 'no confirm ann (approved by ann)'],
      [['snapshot', 'list', context_id], 'one confirm ann (approved by ann)'],
    ] as const) {
      const { out } = await mplpHere(folder, args)
      expect(out).toContain(shows)
      expect(out).not.toMatch(/^ *confirm ann/m)
    }
  })

  it('cannot put lines of its own among those of how a run has ended, or of what is watched', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'flow.json'), JSON.stringify(flowOf({ boom: {} })))
    writeFileSync(
      join(folder, 'mplp.config.mjs'),
      'export default { functions: { boom: () => Promise.reject(new Error("no\\ncompleted")) } }',
    )
    expect((await mplpHere(folder, ['run', 'flow.json'])).out).toMatch(/: no completed$/m)
    await mplpHere(folder, ['drift', 'scan'])
    writeFileSync(join(folder, 'a\naccepted b'), '')
    const { out } = await mplpHere(folder, ['watch', '--strategy', 'files'], 'accepted b')
    expect(out).toMatch(/^accepted a accepted b$/m)
  })

  it('goes to a file or a pipe as it is', () => {
    expect(told(false)).toBe(`\u001b[1mid\u001b[22m\t${hostile}\nnext\nmplp: ${hostile}\n`)
  })
})

describe('a port in use', () => {
  it('is told in one line, and no store is made for it', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    onTestFinished(() => void taken.close())
    const { port } = taken.address() as AddressInfo
    const folder = tempFolder()
    const refused = await mplpHere(folder, ['serve', '--port', String(port)])
    inOneLine(refused, 1, `port ${port} of 127.0.0.1 is taken; choose another port`)
    expect(readdirSync(folder)).toEqual([])
  })

  it.each(['127.0.0.1', 'localhost', '0.0.0.0'])(
    'is refused before a store is made where it is a bus of the server itself, on %s',
    async (host) => {
      const port = await freePort()
      const folder = tempFolder()
      const server = { host, port, tokens: [{ token: 'at-least-16-characters', roles: ['read'] }] }
      const bus = ['memory:', { name: 'live', url: `ws://127.0.0.1:${port}/live` }]
      writeFileSync(join(folder, 'mplp.config.json'), JSON.stringify({ server, bus }))
      const says = `bus[1] is to be served on port ${port} of 127.0.0.1, the server's own; give one of them another port`
      inOneLine(await mplpHere(folder, ['serve']), 1, says)
      expect(readdirSync(folder)).toEqual(['mplp.config.json'])
      expect((await mplpHere(folder, ['serve', '--port', '0', '--json'], 'url')).code).toBe(0)
    },
  )
})
