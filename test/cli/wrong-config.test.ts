import { readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { CONFIG_KEYS, mergedConfig } from '../../src/config.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import { flowOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { mplpHere } from './here.ts'

/** A key, a config in which its value cannot be used (as text: a module's), and the path under which that is told. */
type Wrong = readonly [key: string, config: object | string, path: string]

const model = (of: object) => ({ models: { m: of } })
const drift = (of: object) => ({ root: '.', drift: of })
const WRONG: readonly Wrong[] = [
  ['vsl', { vsl: 'mysql://localhost' }, 'vsl'],
  ['vsl', { vsl: 'memory:x' }, 'vsl'],
  ['vsl', { vsl: 'sqlite://host/state.db' }, 'vsl'],
  ['vsl', { vsl: 'redis://localhost/x' }, 'vsl'],
  ['vsl', { vsl: 'postgres://no host/x' }, 'vsl'],
  ['bus', { bus: ['amqp://localhost'] }, 'bus[0]'],
  ['bus', { bus: ['memory:', 'wss://localhost'] }, 'bus[1]'],
  ['bus', { bus: ['ws://localhost:7000/x?y=1'] }, 'bus[0]'],
  ['bus', { bus: ['kafka://localhost'] }, 'bus[0]'],
  ['bus', { bus: ['redis://localhost:99999'] }, 'bus[0]'],
  ['bus', { bus: ['memory:', 'memory:'] }, 'bus[1].name'],
  ['bus', { bus: [{ url: 'memory:', nmae: 'x' }] }, 'bus[0].nmae'],
  ['root', { root: 'absent' }, 'root'],
  ['off_limits', { off_limits: 'secrets' }, 'off_limits'],
  ['off_limits', { off_limits: ['.env', 'secrets/'] }, 'off_limits'],
  ['off_limits', { ...drift({}), off_limits: ['../secrets'] }, 'off_limits'],
  ['drift', { drift: { watch: true } }, 'drift'],
  ['drift.context', drift({ context: 'files' }), 'drift.context'],
  ['drift.include', drift({ include: 'src' }), 'drift.include'],
  ['drift.exclude', drift({ exclude: [7] }), 'drift.exclude'],
  ['drift.exclude', drift({ exclude: ['dist/'] }), 'drift.exclude[0]'],
  ['drift.ignore_files', drift({ ignore_files: ['conf/.ignore'] }), 'drift.ignore_files'],
  ['drift.ignore_files', drift({ ignore_files: ['..'] }), 'drift.ignore_files'],
  ['drift.rules', drift({ rules: [{ match: '**', strategy: 'theirs' }] }), 'drift.rules[0].strategy'],
  ['drift.rules', drift({ rules: [{ match: 'generated/', strategy: 'graph' }] }), 'drift.rules[0].match'],
  ['drift.rules', drift({ rules: [{ match: '**' }, { match: 'secrets/**' }] }), 'drift.rules[1].match'],
  ['drift.keep_bytes', drift({ keep_bytes: -1 }), 'drift.keep_bytes'],
  ['drift.watch', drift({ watch: 'yes' }), 'drift.watch'],
  ['drift.settle_ms', drift({ settle_ms: 1e12 }), 'drift.settle_ms'],
  ['drift.scan_every_ms', drift({ scan_every_ms: 0.5 }), 'drift.scan_every_ms'],
  ['run', { run: { concurency: 1 } }, 'run.concurency'],
  ['actions', { actions: { atOnce: {} } }, 'actions.atOnce'],
  ['actions.at_once', { actions: { at_once: 5 } }, 'actions.at_once'],
  ['actions.at_once.*', { actions: { at_once: { llm_call: 0 } } }, 'actions.at_once.llm_call'],
  ['actions.at_once.*', { actions: { at_once: { '*': 9, llm_call: 4 } } }, 'actions.at_once.llm_call'],
  ['actions.max_output_bytes', { actions: { max_output_bytes: 0.5 } }, 'actions.max_output_bytes'],
  ['actions.max_rounds', { actions: { max_rounds: 0 }, models: { a: { provider: 'openai' } } }, 'actions.max_rounds'],
  ['actions.max_rounds', { actions: { max_rounds: 20 } }, 'actions.max_rounds'],
  ['lease_ttl_ms', { lease_ttl_ms: 0 }, 'lease_ttl_ms'],
  ['patrol_ms', { patrol_ms: '1s' }, 'patrol_ms'],
  ['keep_ended_days', { keep_ended_days: '90d' }, 'keep_ended_days'],
  ['keep_ended_days', { keep_ended_days: -1 }, 'keep_ended_days'],
  ['encryption_key', { encryption_key: 'short' }, 'encryption_key'],
  ['encryption_key', { encryption_key: `*${'A'.repeat(43)}=` }, 'encryption_key'],
  ['encryption_key', { encryption_key: [] }, 'encryption_key'],
  ['encryption_key', { encryption_key: ['A'.repeat(43), 'A'.repeat(43)] }, 'encryption_key'],
  ['http_allow', { http_allow: ['localhost', '10.0.0.0/99'] }, 'http_allow[1]'],
  ['http_allow', { http_allow: ['http://localhost'] }, 'http_allow[0]'],
  ['http_allow', { http_allow: ['localhost:99999'] }, 'http_allow[0]'],
  ['http_allow', { http_allow: ['localhost:'] }, 'http_allow[0]'],
  ['mcp', { mcp: { 'a b': { command: 'true' } } }, 'mcp.a b'],
  ['mcp.*.command', { mcp: { a: {} } }, 'mcp.a.command'],
  ['mcp.*.args', { mcp: { a: { command: 'true', args: 'x' } } }, 'mcp.a.args'],
  ['mcp.*.env', { mcp: { a: { command: 'true', env: { A: 1 } } } }, 'mcp.a.env'],
  ['mcp.*.cwd', { mcp: { a: { command: 'true', cwd: '' } } }, 'mcp.a.cwd'],
  ['mcp.*.url', { mcp: { a: { url: 'ftp://localhost' } } }, 'mcp.a.url'],
  ['mcp.*.url', { mcp: { a: { url: 'http://localhost', command: 'true' } } }, 'mcp.a.url'],
  ['mcp.*.headers', { mcp: { a: { url: 'http://localhost', headers: { 'a b': 'x' } } } }, 'mcp.a.headers.a b'],
  ['mcp.*.headers', { mcp: { a: { command: 'true', headers: {} } } }, 'mcp.a.headers'],
  ['mcp.*.approvers', { mcp: { a: { command: 'true', approvers: 'dba' } } }, 'mcp.a.approvers'],
  [
    'mcp.*.approvers',
    { mcp: { a: { command: 'true', approvers: { needed: 2, roles: ['dba'] } } } },
    'mcp.a.approvers.needed',
  ],
  ['mcp.*.policy', { mcp: { a: { command: 'true', policy: 'never' } } }, 'mcp.a.policy'],
  ['mcp.*.trustAnnotations', { mcp: { a: { command: 'true', trustAnnotations: 1 } } }, 'mcp.a.trustAnnotations'],
  ['mcp.*.startMs', { mcp: { a: { command: 'true', startMs: 0 } } }, 'mcp.a.startMs'],
  ['mcp.*.startMs', { mcp: { a: { url: 'http://localhost', startMs: 2 ** 31 } } }, 'mcp.a.startMs'],
  ['mcp.*.maxMessageBytes', { mcp: { a: { command: 'true', maxMessageBytes: 0 } } }, 'mcp.a.maxMessageBytes'],
  ['mcp.*.maxMessageBytes', { mcp: { a: { url: 'http://localhost', maxMessageBytes: 1.5 } } }, 'mcp.a.maxMessageBytes'],
  ['models', { models: [] }, 'models'],
  ['models.*.provider', model({ provider: 'opneai' }), 'models.m.provider'],
  ['models.*.provider', model({ provider: { model: 'm' } }), 'models.m.provider'],
  ['models.*.api_key_env', model({ provider: 'scripted', api_key_env: 'KEY' }), 'models.m.api_key_env'],
  ['models.*.base_url', model({ provider: 'openai', base_url: 'ftp://localhost' }), 'models.m.base_url'],
  ['models.*.base_url', model({ provider: 'scripted', base_url: 'http://localhost' }), 'models.m.base_url'],
  ['models.*.price', model({ provider: 'openai', price: 3 }), 'models.m.price'],
  [
    'models.*.price.prompt',
    model({ provider: 'openai', price: { prompt: -3, completion: 15 } }),
    'models.m.price.prompt',
  ],
  ['models.*.price.completion', model({ provider: 'openai', price: { prompt: 3 } }), 'models.m.price.completion'],
  ['models.*.replies', model({ provider: 'scripted', replies: ['a', 7] }), 'models.m.replies[1]'],
  ['models.*.replies', model({ provider: 'scripted', replies: [{ txt: 'a' }] }), 'models.m.replies[0].txt'],
  ['models.*.replies', model({ provider: 'openai', replies: ['a'] }), 'models.m.replies'],
  ['server', { server: 7117 }, 'server'],
  ['server.host', { server: { host: '' } }, 'server.host'],
  ['server.port', { server: { port: 99_999 } }, 'server.port'],
  ['server.tokens', { server: { tokens: [{ token: 'short', roles: ['read'] }] } }, 'server.tokens[0].token'],
  ['server.tokens', { server: { tokens: [{ token: 'x'.repeat(16), roles: ['reed'] }] } }, 'server.tokens[0].roles'],
  ['server.body_limit_bytes', { server: { body_limit_bytes: 0.5 } }, 'server.body_limit_bytes'],
  ['functions', 'functions: { greet: 7 }', 'functions.greet'],
  ['functions', 'functions: { greet: { run() {}, input: { type: "nothing" } } }', 'functions.greet.input'],
  ['tools', 'tools: [{ name: "greet", description: "x", input: {}, execute() {} }]', 'tools[0].name'],
  ['tools', 'tools: [{ name: "a.b", description: "x", input: { type: "nothing" }, execute() {} }]', 'tools[0].input'],
  ['adapters', 'adapters: [{ execute() {} }]', 'adapters[0].action_type'],
  ['adapters', 'adapters: [{ action_type: "tool_call", execute() {} }]', 'adapters[0].action_type'],
  ['resolve', 'resolve: 7', 'resolve'],
]

/** A folder with a flow and the config in it. */
function given(config: object | string): string {
  const folder = tempFolder()
  const read = { action_type: 'file_operation', params: { operation: 'read', path: 'flow.json' } }
  writeFileSync(join(folder, 'flow.json'), JSON.stringify(flowOf({ read: { binding: read } })))
  if (typeof config === 'string') writeFileSync(join(folder, 'mplp.config.mjs'), `export default { ${config} }`)
  else writeFileSync(join(folder, 'mplp.config.json'), JSON.stringify(config))
  return folder
}

describe('a config that cannot be used', () => {
  it.each(WRONG)('is refused before anything is made: %s in %j', async (_, config, path) => {
    const folder = given(config)
    const before = readdirSync(folder)
    for (const call of ['run flow.json', 'serve --port 0']) {
      const { code, out, err } = await mplpHere(folder, [...call.split(' '), '--json'])
      expect({ code, out }, call).toEqual({ code: 64, out: '' })
      const { error } = JSON.parse(err)
      expect(error, call).toMatchObject({ code: 'invalid_input', problems: [{ path, rule: expect.any(String) }] })
      expect(readdirSync(folder), call).toEqual(before)
    }
  })

  it('has been tried with every key', () => {
    const tried = new Set(WRONG.map(([key]) => key))
    expect(CONFIG_KEYS.filter((key) => !['mcp.*', 'models.*'].includes(key) && !tried.has(key))).toEqual([])
  })

  it('is told by the name of what holds it: the file, the variable, the flag', async () => {
    const folder = given({ vsl: 'nowhere:' })
    const told = async (...args: string[]) => (await mplpHere(folder, args)).err
    expect(await told('list')).toMatch(/^mplp: .*mplp\.config\.json is not valid: vsl begins with none of memory:/)
    writeFileSync(join(folder, 'mplp.config.json'), '{}')
    expect(await told('list', '--store', 'nowhere:')).toMatch(/^mplp: the command line is not valid: --store begins/)
    vi.stubEnv('MPLP_BUS', 'nowhere:')
    onTestFinished(() => void vi.unstubAllEnvs())
    expect(await told('list')).toMatch(/^mplp: environment is not valid: MPLP_BUS\[0\] does not begin with one of/)
  })

  it('is whole once all that says it is taken together', async () => {
    const folder = given({ drift: { exclude: ['x'] } })
    expect((await mplpHere(folder, ['config', 'print'])).err).toContain('drift needs root')
    vi.stubEnv('MPLP_ROOT', '.')
    onTestFinished(() => void vi.unstubAllEnvs())
    expect((await mplpHere(folder, ['config', 'print'])).code).toBe(0)
  })

  it.each(['nowhere.json', 'mplp.config.json'])(
    'is refused where it is a link to %s: nothing is made in a store that nobody has named',
    async (to) => {
      const folder = given({})
      rmSync(join(folder, 'mplp.config.json'))
      symlinkSync(to, join(folder, 'mplp.config.json'))
      const { code, err } = await mplpHere(folder, ['run', 'flow.json'])
      expect({ code, err }).toEqual({
        code: 64,
        err: expect.stringMatching(/mplp\.config\.json is not valid: it (does not exist|cannot be read)/),
      })
      expect(readdirSync(folder)).toEqual(['flow.json', 'mplp.config.json'])
    },
  )

  it('never shows a password that is in it', () => {
    for (const config of [{ vsl: 'redis://:hunter2@x:y' }, { bus: [{ url: 'kafka://me:hunter2@x', name: 'a' }] }]) {
      const told = caught(() => mergedConfig(config))
      expect(told).toBeInstanceOf(InvalidInput)
      expect(String(told) + JSON.stringify(told)).not.toContain('hunter2')
    }
  })
})

function caught(call: () => unknown): unknown {
  try {
    return call()
  } catch (error) {
    return error
  }
}
