import { describe, expect, it } from 'vitest'
import { newAction } from '../../src/ael/action.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { finalFailure, passingFailure } from '../../src/ael/failure.ts'
import type { GateRequest } from '../../src/ael/layer.ts'
import { toolAdapter } from '../../src/ael/tool.ts'
import { type Tool, toolRegistry } from '../../src/ael/tool-registry.ts'
import type { JsonObject } from '../../src/protocol/json.ts'
import { type AdapterRig, adapterContract } from '../contracts/adapter-contract.ts'

const anything = { type: 'object' }
const circle: { type: string; items?: JsonObject } = { type: 'array' }
circle.items = circle as never
const tool = (name: string, execute: Tool['execute'], more: Partial<Tool> = {}): Tool => ({
  name,
  description: name,
  input: anything,
  execute,
  ...more,
})
const use = (tool_name: string, tool_args: JsonObject = {}) => ({ tool_name, tool_args })
const call = (tool_name: string, tool_args: JsonObject = {}) =>
  newAction({ action_type: 'tool_call', executor_kind: 'tool', params: use(tool_name, tool_args) })

adapterContract('tool', async (): Promise<AdapterRig> => {
  const secret = 'tool-secret-4711'
  const keys: string[] = []
  const notes: string[] = []
  const open = new Set<string>()
  let begin: () => void
  const began = new Promise<void>((resolve) => {
    begin = resolve
  })
  const registry = toolRegistry([
    tool('math.double', ({ n }) => ({ twice: Number(n) * 2 }), {
      readOnly: true,
      input: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'], additionalProperties: false },
      output: { type: 'object', required: ['twice'] },
    }),
    tool('test.hang', async function* (_, { signal }) {
      open.add('the generator')
      try {
        yield 'one '
        begin()
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      } finally {
        open.delete('the generator')
      }
    }),
    tool('test.flicker', () => Promise.reject(passingFailure('not now'))),
    tool('test.fail', () => Promise.reject(finalFailure('never'))),
    tool('test.fill', () => 'x'.repeat(2_000)),
    tool('test.lie', () => ({ answer: 'text' }), { output: { properties: { answer: { type: 'number' } } } }),
    tool('test.leak', () => Promise.reject(finalFailure(`wrong password ${secret}`))),
    tool(
      'test.note',
      (_, { idempotency_key }) => {
        keys.push(idempotency_key)
        notes.push('a note')
        return { nth: notes.length }
      },
      {
        effect: 'reversible',
        inverse: (_, output) => ({ tool_name: 'test.strike', tool_args: output as JsonObject }),
      },
    ),
    tool('test.strike', ({ nth }) => void notes.splice(Number(nth) - 1, 1)),
  ])
  return {
    adapter: { ...toolAdapter(registry), secrets: () => [secret] },
    works: { params: use('math.double', { n: 21 }), output: { twice: 42 } },
    refused: [
      { params: use('math.double', { n: 'x' }), path: 'tool_args.n' },
      { params: use('math.double'), path: 'tool_args.n' },
      { params: use('math.double', { n: 1, m: 2 }), path: 'tool_args.m' },
      { params: { tool_name: 'math.double' }, path: 'tool_args' },
      { params: use('double', { n: 1 }), path: 'tool_name' },
      { params: use('../math.double'), path: 'tool_name' },
      { params: use('math.triple') },
    ],
    hangs: use('test.hang'),
    underWay: () => began,
    remains: () => [...open],
    failsForNow: use('test.flicker'),
    failsForGood: use('test.fail'),
    large: use('test.fill'),
    misshapen: use('test.lie'),
    leaks: { params: use('test.leak'), secret },
    changes: use('test.note'),
    changed: () => [...notes],
    keys: () => keys,
  }
})

describe('toolRegistry', () => {
  it.each([
    ['a name without namespace', { name: 'write' }, 'name'],
    ['a name that looks like a file', { name: 'tools.json' }, 'name'],
    ['a name with a path in it', { name: 'a..b' }, 'name'],
    ['no description', { description: undefined as never }, 'description'],
    ['a readOnly that is neither true nor false', { readOnly: 'no' as never }, 'readOnly'],
    ['a question that cannot be asked', { requestApproval: 'really?' as never }, 'requestApproval'],
    ['an inverse that is no function', { effect: 'reversible' as const, inverse: 'back' as never }, 'inverse'],
    ['an unknown policy', { policy: 'maybe' as never }, 'policy'],
    ['a reversible effect without inverse', { effect: 'reversible' as const }, 'inverse'],
    ['an irreversible effect with inverse', { effect: 'irreversible' as const, inverse: () => undefined }, 'inverse'],
    ['no function', { execute: undefined as never }, 'execute'],
    ['an input schema that does not compile', { input: { type: 'objekt' } }, 'input'],
    ['an output schema that refers to nothing', { output: { $ref: '#/nowhere' } }, 'output'],
    ['an input that is no schema', { input: 'text' as never }, 'input'],
    ['an input that contains itself', { input: circle }, 'input'],
    ['an input with code in it', { input: { type: 'object', check: () => true } as never }, 'input'],
  ])('refuses %s', (_what, more, path) => {
    const register = () => toolRegistry([tool('ns.name', () => null, more)])
    expect(register).toThrow(expect.objectContaining({ problems: [expect.objectContaining({ path })] }))
    if (path !== 'name') expect(register).toThrow(expect.objectContaining({ subject: 'tool ns.name' }))
  })

  it('refuses a second tool of the same name, and takes it once the first is gone', () => {
    const registry = toolRegistry([tool('ns.a', () => 1)])
    expect(() => registry.register(tool('ns.a', () => 2))).toThrow(/is registered already/)
    registry.unregister('ns.a')
    registry.register(tool('ns.a', () => 2))
    expect(() => registry.unregister('ns.b')).toThrow(/there is no tool ns.b/)
    expect(registry.list('ns').map(({ name }) => name)).toEqual(['ns.a'])
    expect(registry.list('n')).toEqual([])
  })

  it('reads schemas of draft-07 and of 2020-12, and keeps same ids apart', () => {
    const draft7 = { $schema: 'http://json-schema.org/draft-07/schema#', $id: 'x', items: [{ type: 'number' }] }
    const draft2020 = { $id: 'x', prefixItems: [{ type: 'string' }] }
    const registry = toolRegistry([tool('a.a', () => 1, { input: draft7 }), tool('a.b', () => 1, { input: draft2020 })])
    expect(registry.get('a.a').compiledInput.problems(['text'])).toHaveLength(1)
    expect(registry.get('a.b').compiledInput.problems(['text'])).toEqual([])
    expect(registry.get('a.b').compiledInput.problems([1])).toEqual([
      expect.objectContaining({ path: '[0]', rule: 'type' }),
    ])
  })

  it('knows draft-07 by its https spelling too', () => {
    const input = { $schema: 'https://json-schema.org/draft-07/schema', items: [{ type: 'number' }] }
    const { compiledInput } = toolRegistry([tool('a.a', () => 1, { input })]).get('a.a')
    expect(compiledInput.problems(['text'])).toHaveLength(1)
  })

  it('has the verdict of a schema at once, also of one that calls itself asynchronous', () => {
    const input = { $async: true, type: 'object', required: ['city'] }
    const { compiledInput } = toolRegistry([tool('a.a', () => 1, { input })]).get('a.a')
    expect(compiledInput.problems({})).toEqual([expect.objectContaining({ path: 'city', rule: 'required' })])
    expect(compiledInput.problems({ city: 'Rome' })).toEqual([])
  })

  it('takes a Standard Schema that fails to say itself as JSON Schema', () => {
    const input = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: (value: unknown) => ({ value }),
        jsonSchema: { input: () => expect.fail('dates cannot be represented') },
      },
    } as const
    expect(toolRegistry([tool('a.a', () => 1, { input })]).get('a.a').compiledInput.json).toBeUndefined()
  })

  const judging = (validate: (value: unknown) => unknown) => {
    const input = { '~standard': { version: 1, vendor: 'test', validate: validate as never } } as const
    return toolRegistry([tool('a.a', () => 1, { input })]).get('a.a').compiledInput.problems
  }

  it.each([[undefined], [false], [true], [5], [{}], [{ issues: 'no' }]])(
    'takes no verdict from a Standard Schema that gives %j',
    (nonsense) => {
      const verdict = expect.objectContaining({ code: 'action_failed', message: expect.stringContaining('input: its') })
      expect(() => judging(() => nonsense)({})).toThrow(verdict)
    },
  )

  it('waits for the verdict of a Standard Schema also where its promise is of another make', async () => {
    // biome-ignore lint/suspicious/noThenProperty: as libraries have them that are older than promises
    const thenable = { then: (take: (result: unknown) => void) => take({ issues: [{ message: 'no' }] }) }
    expect(await judging(() => thenable)({})).toEqual([{ path: '', rule: 'test', message: 'no' }])
  })

  it.each([[[]], [['no']], [[{ path: undefined }]]])(
    'refuses what has the issues %j, though they say nothing',
    (issues) =>
      expect(judging(() => ({ issues }))({})).toEqual([
        { path: '', rule: 'test', message: 'is refused without a reason' },
      ]),
  )

  it.each([
    [new Error('kaput'), 'kaput'],
    ['kaput', 'threw kaput'],
    [undefined, 'threw undefined'],
  ])('says that it was the schema of this tool that threw %s', async (kaput, said) => {
    const failed = expect.objectContaining({ message: `a.a.input: its schema failed: ${said}`, retryable: true })
    const throwing = judging(() => {
      throw kaput
    })
    expect(() => throwing({})).toThrow(failed)
    await expect(judging(() => Promise.reject(kaput))({})).rejects.toThrow(failed)
  })
})

describe('a tool under policy', () => {
  const asking = (more: Partial<Tool>, answer: 'approved' | 'rejected' | 'pending' = 'approved') => {
    const asked: GateRequest[] = []
    let ran = 0
    const registry = toolRegistry([tool('fs.write', () => ++ran, { policy: 'ask', ...more })])
    const gate = (request: GateRequest) => {
      asked.push(request)
      return { verdict: answer, decided_by: 'lead', reason: 'because' }
    }
    const layer = actionLayer({ adapters: [toolAdapter(registry)], gate })
    return { layer, asked, ran: () => ran }
  }

  it('is done without asking under always_allow, whatever requestApproval would say', async () => {
    const { layer, asked, ran } = asking({ policy: 'always_allow', requestApproval: () => 'really?' })
    await layer.execute(call('fs.write'))
    expect([asked.length, ran()]).toEqual([0, 1])
  })

  it.each<[string, Partial<Tool>]>([
    ['asks by itself', {}],
    ['asks for nobody', { requestApproval: () => null }],
    ['is always allowed', { policy: 'always_allow' }],
  ])('asks those whom it names where it %s, and who admits it has somebody asked', async (_, more) => {
    const approvers = { roles: ['secretary'] }
    const asked: GateRequest[] = []
    const registry = toolRegistry([tool('fs.write', () => null, { policy: 'ask', approvers, ...more })])
    const layer = actionLayer({
      adapters: [toolAdapter(registry)],
      admit: () => ({ allowed: true, policy: 'ask' }),
      gate: (request) => {
        asked.push(request)
        return { verdict: 'approved' }
      },
    })
    await layer.execute(call('fs.write'))
    expect(asked).toMatchObject([{ approvers }])
  })

  it('is never done under blocked', async () => {
    const { layer, asked, ran } = asking({ policy: 'blocked' })
    await expect(layer.execute(call('fs.write'))).rejects.toMatchObject({ code: 'action_denied' })
    expect([asked.length, ran()]).toEqual([0, 0])
  })

  it.each([
    ['the words of the tool', () => 'Write 3 files?', 'Write 3 files?'],
    ['its name for an empty question', () => '', 'Run fs.write?'],
    ['its name for no question', () => undefined, 'Run fs.write?'],
  ])('asks with %s', async (_what, requestApproval, description) => {
    const { layer, asked, ran } = asking({ requestApproval })
    await layer.execute(call('fs.write', { path: 'a' }))
    expect(asked).toEqual([expect.objectContaining({ tool: 'fs.write', arguments: { path: 'a' }, description })])
    expect(ran()).toBe(1)
  })

  it('is done without asking when the tool says that these arguments need none', async () => {
    const { layer, asked, ran } = asking({ requestApproval: ({ path }) => (path === 'tmp' ? null : 'sure?') })
    await layer.execute(call('fs.write', { path: 'tmp' }))
    await layer.execute(call('fs.write', { path: 'home' }))
    expect([asked.length, ran()]).toEqual([1, 2])
  })

  it('takes what it asks and how it is taken back typed by the same arguments as what it does', async () => {
    interface Letter {
      readonly to: string
    }
    interface Sent extends Letter {
      readonly id: string
    }
    const recall = (sent: Sent) => ({ tool_name: 'mail.recall', tool_args: sent })
    const mail = tool('mail.send', ({ to }: Letter) => ({ id: to }), {
      policy: 'ask',
      requestApproval: ({ to }: Letter) => `Write to ${to}?`,
      effect: 'compensable',
      inverse: (letter: Letter, { id }: { readonly id: string }) => recall({ ...letter, id }),
    })
    const asked: GateRequest[] = []
    const layer = actionLayer({
      adapters: [toolAdapter(toolRegistry([mail]))],
      gate: (request) => {
        asked.push(request)
        return { verdict: 'approved' }
      },
    })
    const sent = call('mail.send', { to: 'Ann' })
    const back = layer.inverse(sent, await layer.execute(sent))
    expect(asked).toMatchObject([{ description: 'Write to Ann?' }])
    expect(back).toMatchObject({ params: use('mail.recall', { to: 'Ann', id: 'Ann' }) })
  })

  it('does not ask about arguments that do not fit', async () => {
    const input = { type: 'object', required: ['path'] }
    const { layer, asked } = asking({ input, requestApproval: () => expect.unreachable() })
    await expect(layer.execute(call('fs.write'))).rejects.toThrow(/tool_args.path is required/)
    expect(asked).toEqual([])
  })

  it('is not done when a person says no', async () => {
    const { layer, ran } = asking({}, 'rejected')
    const rejected = layer.execute(call('fs.write'))
    await expect(rejected).rejects.toMatchObject({ code: 'action_rejected', retryable: false })
    await expect(rejected).rejects.toThrow(/rejected by lead: because/)
    expect(ran()).toBe(0)
  })
})

describe('what a tool streams and takes back', () => {
  it('streams also what a tool gives only after a while', async () => {
    async function* pieces() {
      yield 'one '
      yield 'two'
    }
    const later = tool('a.later', (async () => pieces()) as never)
    const layer = actionLayer({ adapters: [toolAdapter(toolRegistry([later]))] })
    const deltas: string[] = []
    const { output } = await layer.execute(call('a.later'), { onDelta: (delta) => deltas.push(delta) })
    expect([output, deltas]).toEqual(['one two', ['one ', 'two']])
  })

  it('streams the pieces and gives all of them joined', async () => {
    const registry = toolRegistry([
      tool('say.it', async function* () {
        yield 'one '
        yield 'two'
      }),
    ])
    const deltas: string[] = []
    const layer = actionLayer({ adapters: [toolAdapter(registry)] })
    const asked = call('say.it')
    const { output } = await layer.execute(asked, {
      onDelta: (delta, { action_id }) => deltas.push(`${action_id === asked.action_id}: ${delta}`),
    })
    expect(output).toBe('one two')
    expect(deltas).toEqual(['true: one ', 'true: two'])
  })

  it('ends a stream at the limit of an output, and one that is not text', async () => {
    let made = 0
    async function* endless() {
      for (;;) {
        made++
        yield 'x'.repeat(100)
      }
    }
    const odd = async function* () {
      yield { a: 1 } as never
    }
    const registry = toolRegistry([tool('test.endless', endless), tool('test.odd', odd)])
    const layer = actionLayer({ adapters: [toolAdapter(registry)], maxOutputBytes: 1_000 })
    await expect(layer.execute(call('test.endless'))).rejects.toMatchObject({
      code: 'action_failed',
      cause: { code: 'too_large', limit: 1_000 },
    })
    expect(made).toBe(11)
    await expect(layer.execute(call('test.odd'))).rejects.toThrow('test.odd streamed object, which is not text')
  })

  it('gives nothing through a layer that takes no output at all', async () => {
    const registry = toolRegistry([tool('test.text', () => 'x'), tool('test.silent', () => undefined)])
    const layer = actionLayer({ adapters: [toolAdapter(registry)], maxOutputBytes: 0 })
    await expect(layer.execute(call('test.text'))).rejects.toMatchObject({ cause: { code: 'too_large', limit: 0 } })
    expect(await layer.execute(call('test.silent'))).toMatchObject({ status: 'completed' })
  })

  it('knows the way back of each tool', () => {
    const inverse: Tool['inverse'] = ({ id }, output) =>
      output === null ? undefined : use('crm.delete', { id: id ?? null, output: output ?? null })
    const registry = toolRegistry([
      tool('crm.create', () => 1, { effect: 'reversible', inverse }),
      tool('crm.read', () => 1, { readOnly: true }),
      tool('mail.send', () => 1),
    ])
    const layer = actionLayer({ adapters: [toolAdapter(registry)] })
    const made = call('crm.create', { id: 7 })
    expect(layer.inverse(made, { output: 'x' })).toMatchObject({
      action_type: 'tool_call',
      params: use('crm.delete', { id: 7, output: 'x' }),
      idempotency_key: `undo:${made.idempotency_key}`,
    })
    expect(layer.inverse(made, { output: null })).toBe('none_needed')
    expect(layer.inverse(call('crm.read'), {})).toBe('none_needed')
    expect(layer.inverse(call('mail.send'), {})).toBe('irreversible')
  })

  it('may be an instance of a class, with everything that it says by a method', async () => {
    class Create implements Tool {
      readonly name = 'crm.create'
      readonly input = {}
      readonly policy = 'ask'
      readonly effect = 'reversible'
      readonly #way = 'crm.delete'
      get description() {
        return 'creates'
      }
      requestApproval() {
        return `Undone by ${this.#way}?`
      }
      inverse() {
        return use(this.#way)
      }
      execute() {
        return 1
      }
    }
    const layer = actionLayer({ adapters: [toolAdapter(toolRegistry([new Create()]))] })
    expect(layer.inverse(call('crm.create'), {})).toMatchObject({ params: use('crm.delete') })
    await expect(layer.execute(call('crm.create'))).rejects.toMatchObject({
      question: { description: 'Undone by crm.delete?' },
    })
  })
})
