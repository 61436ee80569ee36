import { describe, expect, it } from 'vitest'
import { maskedConfig } from '../src/cli/masked-config.ts'
import { CONFIG_KEYS, type Config, configFromEnv, effectiveConfig, mergedConfig } from '../src/config.ts'
import { InvalidInput } from '../src/protocol/errors.ts'

describe('a config', () => {
  it.each<[string, unknown, string, string]>([
    ['a misspelt key', { vls: 'memory:' }, 'vls', 'is not known; did you mean vsl?'],
    ['one further down', { server: { prot: 1 } }, 'server.prot', 'is not known; did you mean port?'],
    ['one of a model', { models: { m: { provider: 'openai', provder: 'x' } } }, 'models.m.provder', 'mean provider?'],
    ['a model without a provider', { models: { main: { api_key_env: 'KEY' } } }, 'models.main.provider', 'is missing'],
    ['a model that is nowhere', { models: { m: { provider: 'compatible' } } }, 'models.m.base_url', 'is missing'],
    ['an address of a model', { models: { m: { provider: 'openai', base_url: 'x' } } }, 'models.m.base_url', 'a URL'],
    ['one of an MCP server', { mcp: { a: { command: 'x', polcy: 'ask' } } }, 'mcp.a.polcy', 'did you mean policy?'],
    ['a policy that is none', { mcp: { a: { command: 'x', policy: 'aks' } } }, 'mcp.a.policy', 'must be always_allow'],
    ['a server without a command', { mcp: { a: { args: [] } } }, 'mcp.a.command', 'is missing'],
    [
      'a server in two ways',
      { mcp: { a: { command: 'x', url: 'http://a' } } },
      'mcp.a.url',
      'does not go with command',
    ],
    ['a server by another protocol', { mcp: { a: { url: 'ws://a' } } }, 'mcp.a.url', 'must be http or https'],
    ['a password in its URL', { mcp: { a: { url: 'http://u:p@a' } } }, 'mcp.a.url', 'give headers.authorization'],
    [
      'arguments of a server behind a URL',
      { mcp: { a: { url: 'http://a', args: [] } } },
      'mcp.a.args',
      'means nothing',
    ],
    ['headers that are none', { mcp: { a: { url: 'http://a', headers: 'x' } } }, 'mcp.a.headers', 'an object of texts'],
    [
      'a function for headers of one that is started',
      { mcp: { a: { command: 'x', headers: () => ({}) } } },
      'mcp.a.headers',
      'means nothing',
    ],
    ['headers of one that is started', { mcp: { a: { command: 'x', headers: {} } } }, 'mcp.a.headers', 'means nothing'],
    ['arguments that are no texts', { mcp: { a: { command: 'x', args: [1] } } }, 'mcp.a.args', 'a list of texts'],
    ['an address that is none', { http_allow: [7] }, 'http_allow', 'must be a list of texts'],
    ['a bus that is none', { bus: [{ name: 'x' }] }, 'bus', 'must be a list of URLs'],
    ['a pattern that is none', { drift: { include: [''] } }, 'drift.include', 'must be a list of texts'],
    ['one like nothing we know', { colour: 1 }, 'colour', 'is not known'],
    ['one that objects have', JSON.parse('{ "constructor": 1 }'), 'constructor', 'is not known'],
    ['text where a list belongs', { bus: 'redis://x' }, 'bus', 'must be a list'],
    ['a number that is none', { patrol_ms: 'soon' }, 'patrol_ms', 'must be a number above 0'],
    ['days that are none', { keep_ended_days: 'all' }, 'keep_ended_days', 'must be a number from 0 to 36500'],
    ['a flag that is none', { drift: { watch: 'yes' } }, 'drift.watch', 'must be true or false'],
    ['a list where an object belongs', { models: [] }, 'models', 'must be an object'],
    ['nothing at all', null, '', 'must be an object'],
    ['functions in a Map', { functions: new Map([['greet', () => 'hello']]) }, 'functions', 'must be a plain object'],
    ['functions that were not waited for', { functions: import('node:os') }, 'functions', 'must be a plain object'],
    [
      'functions that only a class has',
      {
        functions: new (class Greetings {
          greet() {}
        })(),
      },
      'functions',
      'must be a plain object',
    ],
    ['servers in a Map', { mcp: new Map([['a', { command: 'x' }]]) }, 'mcp', 'must be a plain object'],
  ])('refuses %s', (_, given, path, says) => {
    const error = caught(() => mergedConfig(given))
    expect(error).toBeInstanceOf(InvalidInput)
    expect((error as InvalidInput).problems).toMatchObject([{ path, message: expect.stringContaining(says) }])
  })

  it('suggests nothing for a short key that is like none', () => {
    const error = caught(() => mergedConfig({ nope: 1 })) as InvalidInput
    expect(error.problems).toMatchObject([{ path: 'nope', message: 'is not known' }])
  })

  it('names every wrong key at once', () => {
    const error = caught(() => mergedConfig({ vls: 1, patrol_ms: -1, server: { hots: 1 } })) as InvalidInput
    expect(error.problems.map(({ path }) => path)).toEqual(['vls', 'patrol_ms', 'server.hots'])
  })

  it('never shows what it was given for a secret', () => {
    const error = caught(() => mergedConfig({ encryption_key: { deep: 'hunter2' } })) as InvalidInput
    expect(JSON.stringify(error.problems) + error.message).not.toContain('hunter2')
    expect(JSON.stringify(caught(() => mergedConfig({ bus: ['redis://:hunter2@x', 7] })))).not.toContain('hunter2')
    const model = { provider: 'openai', base_url: '//u:hunter2@proxy' }
    expect(JSON.stringify(caught(() => mergedConfig({ models: { m: model } })))).not.toContain('hunter2')
    const server = { command: 'x', env: { KEY: ['hunter2'] } }
    expect(JSON.stringify(caught(() => mergedConfig({ mcp: { a: server } })))).not.toContain('hunter2')
    for (const wrong of [{ headers: { a: ['hunter2'] } }, { headers: { a: 'hunter2\n' } }, { url: '//u:hunter2@x' }])
      expect(JSON.stringify(caught(() => mergedConfig({ mcp: { a: { url: 'http://x', ...wrong } } })))).not.toContain(
        'hunter2',
      )
    expect(JSON.stringify(caught(() => mergedConfig({ mcp: { a: { url: 'http://u:hunter2@x' } } })))).not.toContain(
      'hunter2',
    )
    expect(String(caught(() => configFromEnv({ MPLP_SERVER: '{ "tokens": "hunter2' })))).not.toContain('hunter2')
  })

  it('refuses a token that is given twice, naming both places and not the token', () => {
    const tokens = [
      { token: 'hunter2-of-enough-length', roles: ['admin'] },
      { token: 'hunter3-of-enough-length', roles: ['read'] },
      { token: 'hunter2-of-enough-length', roles: ['read'] },
    ]
    const error = caught(() => mergedConfig({ server: { tokens } })) as InvalidInput
    const message = 'is that of tokens[0] too; name all of its roles there'
    expect(error.problems).toEqual([{ path: 'server.tokens[2].token', rule: 'unique', message }])
    expect(mergedConfig({ server: { tokens: tokens.slice(1) } }).server?.tokens).toHaveLength(2)
  })

  it('refuses what a token may not hold without naming it, for it may be the token', () => {
    const limited = { token: 'hunter2-of-enough-length', roles: ['run'], expires: '2027-01-01' }
    const path = 'server.tokens[0]'
    expect(caught(() => mergedConfig({ server: { tokens: [limited] } }))).toMatchObject({
      problems: [{ path, rule: 'extra_forbidden', message: 'may hold token and roles, and nothing else' }],
    })
    const misplaced = { 'hunter2-of-enough-length': ['read'] }
    expect(String(caught(() => mergedConfig({ server: { tokens: [misplaced] } })))).not.toContain('hunter2')
  })

  it('takes what comes later', () => {
    const config = mergedConfig({ vsl: 'memory:', patrol_ms: 1 }, configFromEnv({ MPLP_PATROL_MS: '2' }), {
      patrol_ms: 3,
    })
    expect(config).toEqual({ vsl: 'memory:', patrol_ms: 3 })
    expect(effectiveConfig(config)).toMatchObject({ vsl: 'memory:', bus: [], server: { port: 7117 } })
  })

  it('takes what is undefined for what is not said', () => {
    const layers = [
      { vsl: 'memory:', server: { port: undefined, host: 'a' } },
      { vsl: undefined, bus: undefined },
    ]
    const merged = mergedConfig(...layers, { drift: { watch: undefined } })
    expect(effectiveConfig(merged)).toMatchObject({ vsl: 'memory:', bus: [], server: { port: 7117, host: 'a' } })
  })

  it('reads lists, numbers and JSON from the environment, and nothing that is not ours', () => {
    const env = { MPLP_BUS: 'redis://a, kafka://b/c', MPLP_LEASE_TTL_MS: '50', MPLP_DRIFT: '{"watch":true}', HOME: '/' }
    expect(configFromEnv(env)).toEqual({ bus: ['redis://a', 'kafka://b/c'], lease_ttl_ms: 50, drift: { watch: true } })
  })

  it('keeps the brokers of a Kafka together, wherever it stands among the buses', () => {
    const [kafka, redis] = ['kafka://user:password@a:9092,b,c:9093/topic', 'redis://a']
    for (const bus of [[kafka], [kafka, redis], [redis, kafka]])
      expect(configFromEnv({ MPLP_BUS: bus.join(', ') })).toEqual({ bus })
  })

  it.each(['functions', 'tools', 'adapters', 'resolve'])('takes no %s from the environment', (key) => {
    const name = `MPLP_${key.toUpperCase()}`
    const error = caught(() => configFromEnv({ [name]: '{}' })) as InvalidInput
    expect(error.problems).toMatchObject([{ path: name, rule: 'from_code' }])
  })

  it.each<[string, string, string]>([
    ['MPLP_FOO', 'x', 'is not known; did you mean MPLP_ROOT?'],
    ['MPLP_PATROL_M', '1', 'is not known; did you mean MPLP_PATROL_MS?'],
    ['MPLP_NOPE', '1', 'is not known'],
    ['MPLP_FUNCTION', '{}', 'is not known'], // functions are code, and no variable
    ['MPLP_CONSTRUCTOR', '{}', 'is not known'],
  ])('refuses the variable %s=%s: it %s', (name, value, message) => {
    const error = caught(() => configFromEnv({ [name]: value })) as InvalidInput
    expect(error.problems).toEqual([{ path: name, rule: 'extra_forbidden', message }])
  })

  it('shows the number of a variable as it was given', () => {
    const error = caught(() => configFromEnv({ MPLP_PATROL_MS: 'soon' })) as InvalidInput
    const message = 'must be a number above 0'
    expect(error.problems).toEqual([{ path: 'MPLP_PATROL_MS', rule: 'type', message, found: '"soon"' }])
  })

  it.each(['MPLP_VSL', 'MPLP_BUS', 'MPLP_PATROL_MS', 'MPLP_DRIFT', 'MPLP_ENCRYPTION_KEY'])(
    'refuses the variable %s that is set and empty',
    (path) => {
      const error = caught(() => configFromEnv({ [path]: '' })) as InvalidInput
      expect(error.problems).toEqual([{ path, rule: 'min_length', message: 'is empty: unset it, or give it a value' }])
    },
  )

  it('names every wrong variable at once, and a key within one as it is called there', () => {
    const env = { MPLP_VLS: 'memory:', MPLP_PATROL_MS: '-1', MPLP_DRIFT: '{"wach":true}' }
    const error = caught(() => configFromEnv(env)) as InvalidInput
    expect(error.problems).toMatchObject([
      { path: 'MPLP_VLS', message: 'is not known; did you mean MPLP_VSL?' },
      { path: 'MPLP_PATROL_MS', found: '-1' },
      { path: 'MPLP_DRIFT.wach', message: 'is not known; did you mean watch?' },
    ])
  })

  it('knows its keys to all depths', () => {
    expect(CONFIG_KEYS).toEqual(expect.arrayContaining(['vsl', 'drift.rules', 'models.*.provider', 'server.tokens']))
  })
})

describe('what is shown of it', () => {
  it('covers keys, tokens and passwords wherever they stand, and names what is code', () => {
    const config: Config = {
      vsl: 'postgres://me:hunter2@db/x?sslkey=hunter3',
      bus: [{ url: 'redis://:hunter4@hunter9@cache', name: 'cache' }],
      encryption_key: 'hunter5',
      server: { tokens: [{ token: 'hunter6-of-enough-length', roles: ['read'] }] },
      models: { main: { provider: 'openai', api_key_env: 'OPENAI_API_KEY', base_url: 'https://u:hunter7@proxy' } },
      mcp: {
        files: {
          command: 'serve',
          args: ['--quiet', '--token=hunter10', '--api-key', 'hunter11', '--tokens-at', './here'],
          env: { ANYTHING: 'hunter8' },
        },
        docs: { url: 'https://docs/mcp?exaApiKey=hunter12&auth=hunter13', headers: { 'x-anything': 'hunter14' } },
        signed: { url: 'https://signed/mcp', headers: () => ({ 'x-anything': 'hunter15' }) },
      },
      functions: { greet: () => 'hello' },
      adapters: [{ action_type: 'mine', executor_kind: 'tool', execute: async () => ({ output: 1 }) } as never],
      resolve: () => undefined,
    }
    const shown = maskedConfig(config)
    expect(JSON.stringify(shown)).not.toContain('hunter')
    expect(shown).toEqual({
      vsl: 'postgres://me:***@db/x?sslkey=***',
      bus: [{ url: 'redis://:***@cache', name: 'cache' }],
      encryption_key: '***',
      server: { tokens: [{ token: '***', roles: ['read'] }] },
      models: { main: { provider: 'openai', api_key_env: 'OPENAI_API_KEY', base_url: 'https://u:***@proxy' } },
      mcp: {
        files: {
          command: 'serve',
          args: ['--quiet', '--token=***', '--api-key', '***', '--tokens-at', './here'],
          env: { ANYTHING: '***' },
        },
        docs: { url: 'https://docs/mcp?exaApiKey=***&auth=***', headers: { 'x-anything': '***' } },
        signed: { url: 'https://signed/mcp', headers: '(code)' },
      },
      functions: { greet: '(code)' },
      adapters: ['(code) mine'],
      resolve: '(code)',
    })
  })

  it('shows nothing of what was made by a class, whose fields are its own', () => {
    class Mine {
      readonly account = 'hunter16'
      async model() {
        return this.account
      }
      secrets() {
        return [this.account]
      }
    }
    expect(maskedConfig({ models: { m: { provider: new Mine() } } })).toEqual({ models: { m: { provider: '(code)' } } })
  })
})

function caught(call: () => unknown): unknown {
  try {
    call()
  } catch (error) {
    return error
  }
  return undefined
}
