import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { compliance, complianceMarkdown } from '../../src/golden/compliance.ts'
import type { Capability, Driver, Outcome, Session } from '../../src/golden/driver.ts'
import { type GoldenFlow, inMemory, ownDriver, readFlows, report, runFlow, runGolden } from '../../src/golden/golden.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import { mapInvariants, saInvariants } from '../../src/protocol/invariant-rules.ts'
import type { Json } from '../../src/protocol/json.ts'
import { FOLDING, RULES } from '../../src/psg/rules.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { tempFolder } from '../support/temp-folder.ts'

const FLOWS = await readFlows(fileURLToPath(new URL('../../golden-flows', import.meta.url)))
const some = (...names: string[]) => FLOWS.filter(({ name }) => names.includes(name))
const own = ownDriver({ open: async () => inMemory(memoryBackend()) })
const fine = async () => ({ ok: true }) as const
const nothing = async () => undefined

/** A runtime that takes everything, keeps nothing and says that all is well. */
const careless: Driver = {
  name: 'careless',
  capabilities: own.capabilities,
  open: async (): Promise<Session> => ({
    load: fine,
    change: fine,
    documents: async () => [],
    events: async () => [],
    verify: async () => [],
    close: nothing,
    submit: fine,
    settle: async () => 'ended',
    underway: nothing,
    cancel: fine,
    signal: fine,
    decide: fine,
    propose: fine,
    crash: nothing,
    freeze: nothing,
    thaw: nothing,
    rollback: fine,
    snapshot: fine,
    restore: fine,
    breaches: async () => [],
    disk: nothing,
    files: async () => ({}),
    want: fine,
    scan: async () => [],
    reconcile: fine,
  }),
}

/** Our own runtime with one thing wrong about it. */
const withDefect = (defect: (session: Session) => Partial<Session>): Driver => ({
  ...own,
  name: 'defective',
  async open(options) {
    const session = await own.open(options)
    return { ...session, ...defect(session) }
  },
})
const failing = async (flows: readonly GoldenFlow[], driver: Driver, limitMs = 20_000) => {
  const { results } = await runGolden({ flows, driver, backends: ['memory'], limitMs })
  return results.filter(({ status }) => status === 'failed').map(({ flow, reason }) => `${flow}: ${reason}`)
}

describe('golden flows', () => {
  it('fail, each of them, on a runtime that keeps nothing', async () => {
    const { results, passed } = await runGolden({ flows: FLOWS, driver: careless, backends: ['none'] })
    expect(passed).toBe(false)
    expect(results.filter(({ status }) => status !== 'failed').map(({ flow }) => flow)).toEqual([])
  })

  it('fail, each of them, on a driver that answers nothing: that is no refusal', async () => {
    const mute: Driver = {
      ...careless,
      open: async (options) => {
        const names = Object.keys(await careless.open(options))
        return Object.fromEntries(names.map((name) => [name, nothing])) as unknown as Session
      },
    }
    const { results } = await runGolden({ flows: FLOWS, driver: mute, backends: ['none'] })
    expect(results.filter(({ status }) => status !== 'failed').map(({ flow }) => flow)).toEqual([])
  })

  it.each([
    [
      { load: async () => 'fine' },
      "load: answer of the driver's load is not valid: it must be { ok: true }, or { ok: false } with",
    ],
    [{ load: async () => ({ ok: false }) }, "of the driver's load is not valid: it must be"],
    [
      { verify: async () => null },
      "answer of the driver's verify is not valid: it must be a list of texts that are not empty, not null",
    ],
    [{ documents: nothing }, "answer of the driver's documents is not valid: it must be a list, not undefined"],
    [{ change: undefined, verify: undefined }, 'session of the driver is not valid: it has no change, verify'],
  ])('say what a driver must answer', async (odd, says) => {
    const driver = withDefect(() => odd as never)
    expect(await failing(some('conformance/basic'), driver)).toEqual([expect.stringContaining(says)])
  })

  it('notice a runtime that refuses and does something all the same', async () => {
    const leaving = withDefect((session) => {
      const behind: Json[] = []
      const leaves = (ask: (...given: never[]) => Promise<Outcome>) => async (given: never) => {
        const outcome = await ask(given)
        if (!outcome.ok) behind.push({ role_id: 'left behind' })
        return outcome
      }
      const documents: Session['documents'] = async (kind) => [
        ...(await session.documents(kind)),
        ...(kind === 'role' ? behind : []),
      ]
      return { load: leaves(session.load), change: leaves(session.change), documents }
    })
    const flows = some('integrity/cycle', 'integrity/guards', 'lifecycle/plan')
    const says = /was refused, but the role documents are others than before$/
    expect(await failing(flows, leaving)).toEqual(flows.map(() => expect.stringMatching(says)))
  })

  it('notice a runtime that tells no end of an action', async () => {
    const silent = withDefect(({ events }) => ({
      events: async () => (await events()).filter(({ event_type }) => event_type !== 'execution_completed'),
    }))
    expect(await failing(some('execution/happy-path'), silent)).toEqual([
      expect.stringContaining('expected/events.ndjson:16 must be execution_completed, found SAStepCompleted'),
    ])
  })

  it('notice a runtime that says yes to what it refuses', async () => {
    const agreeable = withDefect(({ change }) => ({ change: async (asked) => change(asked).then(fine) }))
    expect(await failing(some('integrity/cycle', 'lifecycle/step'), agreeable)).toEqual([
      expect.stringContaining('was accepted, but must be refused by plan.acyclic'),
      expect.stringContaining('was accepted, but must be refused by lifecycle.step.'),
    ])
  })

  it('notice a runtime that refuses by another rule than it should', async () => {
    const confused = withDefect(() => ({ change: async () => ({ ok: false, rules: ['mood'], message: 'no' }) }))
    expect(await failing(some('integrity/fixed-ids'), confused)).toEqual([
      expect.stringContaining('was refused by mood, not by id.fixed'),
    ])
  })

  it('notice a runtime that forgets a field of a document', async () => {
    const forgetful = withDefect(({ documents }) => ({
      documents: async (kind) => (await documents(kind)).map((document) => ({ ...Object(document), title: undefined })),
    }))
    expect(await failing(some('conformance/basic'), forgetful)).toEqual([
      expect.stringContaining('title is missing: "'),
    ])
  })

  it('notice a runtime that loses its run in a crash, hangs, or throws', async () => {
    const crash = some('execution/crash-and-resume')
    expect(
      await failing(
        crash,
        withDefect(() => ({ crash: nothing })),
        500,
      ),
    ).toEqual([expect.stringMatching(/script\.yaml:\d+ settle: takes longer than 500 ms/)])
    const thrower = withDefect(() => ({ crash: () => Promise.reject(new Error('out of order')) }))
    expect(await failing(crash, thrower)).toEqual([expect.stringMatching(/script\.yaml:\d+ crash: out of order/)])
  })

  it('notice a runtime that does not open, and close it when it does after all', async () => {
    let opens: (session: Session) => void = () => undefined
    const late = new Promise<Session>((resolve) => {
      opens = resolve
    })
    const slow = { ...careless, open: () => late }
    expect(await failing(some('integrity/cycle'), slow, 20)).toEqual(['integrity/cycle: takes longer than 20 ms'])
    const closed = new Promise<void>((resolve) => {
      void careless.open({} as never).then((session) => opens({ ...session, close: async () => resolve() }))
    })
    await closed
  })

  it('stand by their verdict on a runtime that cannot be closed', async () => {
    const close = () => {
      throw new Error('not now')
    }
    for (const ending of [close, undefined as never]) {
      const open: Driver['open'] = async (options) => ({ ...(await careless.open(options)), close: ending })
      expect(await failing(some('integrity/cycle'), { ...careless, open })).toEqual([
        expect.stringContaining('was accepted, but must be refused'),
      ])
    }
  })

  it('see a part refused that is nothing', async () => {
    const [flow] = some('conformance/basic')
    const add = { kind: 'segment', owner: 'a trace', document: null }
    const script = [...flow!.script, { verb: 'add', given: add, refused: ['schema'], at: 'script.yaml:9' }]
    expect(await failing([{ ...flow!, script }], own)).toEqual([])
  })

  it('write into no folder that they do not have', async () => {
    const [flow] = some('drift/ask-approved').map(({ files: _, ...bare }): GoldenFlow => bare)
    const script = [{ verb: 'disk', given: { 'a.md': 'text' }, at: 'script.yaml:2' }]
    expect(await failing([{ ...flow!, script }], own)).toEqual([
      expect.stringContaining('script.yaml:2 disk: golden flow is not valid: it has no files'),
    ])
  })

  it('tell a driver that offers what it does not have', async () => {
    const boastful: Driver = {
      ...careless,
      open: async (options) => ({ ...(await careless.open(options)), crash: undefined as never }),
    }
    expect(await failing(some('execution/crash-and-resume'), boastful)).toEqual([
      expect.stringContaining('has no crash, though it offers recovery'),
    ])
  })

  it('notice a store that lets an owner write which is none any more', async () => {
    const unfenced = ownDriver({
      async open() {
        const store = memoryBackend()
        return inMemory({ ...store, commit: ({ fence: _, ...write }) => store.commit(write) })
      },
    })
    expect(await failing(some('execution/two-owners'), own)).toEqual([])
    expect(await failing(some('execution/two-owners'), unfenced)).toHaveLength(1)
  })

  it('run on a session that is an object of a class', async () => {
    class Held {
      readonly #inner: Session
      constructor(inner: Session) {
        this.#inner = inner
        for (const name of Object.keys(inner) as (keyof Session)[])
          Object.assign(this, {
            [name](this: Held, ...args: never[]) {
              return (this.#inner[name] as (...given: never[]) => unknown)(...args)
            },
          })
      }
    }
    const driver: Driver = { ...own, open: async (options) => new Held(await own.open(options)) as unknown as Session }
    expect(
      await failing(some('execution/crash-and-resume', 'drift/merge', 'execution/confirm-required'), driver),
    ).toEqual([])
  })

  it('skip by name what a runtime does not offer', async () => {
    const modest = { ...careless, capabilities: ['conformance'] as readonly Capability[] }
    const { results } = await runGolden({ flows: some('execution/happy-path'), driver: modest, backends: ['none'] })
    expect(results[0]).toMatchObject({ status: 'skipped', reason: 'careless does not offer execution' })
  })

  it('notice a single rule, invariant or event that is switched off', async () => {
    const cases = {
      'integrity/cycle': 'plan.acyclic',
      'single-agent/context-must-be-active': 'sa_context_must_be_active',
      'single-agent/events-in-order': 'event.SAPlanEvaluated',
    }
    for (const [flow, id] of Object.entries(cases)) {
      const driver = ownDriver({ open: async () => inMemory(memoryBackend()), switched: new Set([id]) })
      expect(await failing(some(flow), driver)).toHaveLength(1)
    }
  })

  it('give the same events, byte for byte but for what time adds, however often they run', async () => {
    const told = async () => {
      const seen: string[] = []
      const driver = withDefect(({ events, close }) => ({
        async close() {
          for (const { timestamp: _, payload: __, ...event } of await events()) seen.push(JSON.stringify(event))
          await close()
        },
      }))
      await runGolden({ flows: some('execution/diamond'), driver, backends: ['memory'] })
      return seen
    }
    const once = await told()
    expect(once.length).toBeGreaterThan(20)
    expect(await told()).toEqual(once)
  })

  it('name only rules that there are', () => {
    const known = new Set([...RULES, ...FOLDING, ...saInvariants, ...mapInvariants].map(({ id }) => id))
    const odd = FLOWS.flatMap(({ name, rules }) =>
      rules.filter((id) => !known.has(id) && !/^(event|lifecycle)\./.test(id)).map((id) => `${name}: ${id}`),
    )
    expect(odd).toEqual([])
  })

  it('are told in five ways, with the totals of each backend', async () => {
    const golden = await runGolden({
      flows: some('integrity/cycle', 'conformance/basic'),
      driver: own,
      backends: ['memory'],
    })
    const json = report(golden, 'json')
    expect(JSON.parse(json).totals).toEqual({ memory: { passed: 2, failed: 0, skipped: 0 } })
    expect(json.endsWith('"totals":{"memory":{"passed":2,"failed":0,"skipped":0}}}')).toBe(true)
    expect(report(golden, 'human')).toContain('memory: 2 passed, 0 failed')
    expect(report(golden, 'tap').split('\n').slice(0, 3)).toEqual([
      'TAP version 13',
      '1..2',
      'ok 1 - memory conformance/basic',
    ])
    expect(report(golden, 'junit')).toContain('tests="2" failures="0"')
    expect(compliance(golden).find(({ says }) => says === 'Plans are acyclic')?.result).toEqual({ memory: 'passed' })
    expect(complianceMarkdown(golden)).toContain('| Plans are acyclic | must | passed | 1 |')
  })

  it('are not passed when somebody stopped them', async () => {
    const stop = new AbortController()
    const flows = some('integrity/cycle', 'integrity/schema', 'integrity/births')
    const given = { flows, driver: own, backends: ['memory'], concurrency: 1, signal: stop.signal }
    const { results, passed } = await runGolden({ ...given, onResult: () => stop.abort() })
    expect(results.map(({ status }) => status)).toEqual(['passed'])
    expect(passed).toBe(false)
  })

  it('are told as XML and TAP that can be read, whatever a runtime says', async () => {
    const odd = { ...own, open: () => Promise.reject(new Error('<&"\u0000\u001b[31m\n# SKIP')) }
    const golden = await runGolden({ flows: some('integrity/cycle'), driver: odd, backends: ['memory'] })
    expect(report(golden, 'junit')).toContain('message="&lt;&amp;&quot;\ufffd\ufffd[31m&#10;# SKIP"')
    expect(report(golden, 'tap').split('\n')).toContain('not ok 1 - memory integrity/cycle')
  })

  it('prove every line of the checklist', async () => {
    const results = FLOWS.map(({ name, rules }) => {
      return { flow: name, backend: 'x', status: 'passed' as const, rules, duration_ms: 0 }
    })
    const golden = { driver: 'x', results, passed: true, totals: { x: { passed: 0, failed: 0, skipped: 0 } } }
    expect(compliance(golden).filter(({ result }) => result.x !== 'passed')).toEqual([])
  })

  it.each([
    { limitMs: Number.POSITIVE_INFINITY },
    { limitMs: 0 },
    { concurrency: 0 },
    { concurrency: Number.NaN },
    { backends: 'memory' },
    { driver: { name: 'half', open: careless.open } },
    { driver: undefined },
    { driver: { ...careless, capabilities: ['conformance', 'excution'] } },
  ])('are refused with %o', async (odd) => {
    const options = { flows: some('integrity/cycle'), driver: careless, backends: ['memory'], ...odd }
    await expect(runGolden(options as never)).rejects.toThrow(InvalidInput)
  })

  it('run once on a backend that is named twice', async () => {
    const backends = ['memory', 'memory']
    const { results } = await runGolden({ flows: some('integrity/cycle'), driver: careless, backends })
    expect(results).toHaveLength(1)
  })

  it('are refused with what they cannot be run, told or exported with, before anything runs', async () => {
    const flows = some('integrity/cycle')
    const golden = await runGolden({ flows, driver: careless, backends: ['memory'] })
    const refused = (path: string) => expect.objectContaining({ problems: [expect.objectContaining({ path })] })
    let opened = 0
    const driver: Driver = { ...careless, open: (options) => careless.open(options).finally(() => opened++) }
    const options = { flows, driver, backends: ['memory'] }
    for (const [path, odd] of [
      ['flows', { flows: 7 }],
      ['flows', { flows: [null] }],
      ['filter', { filter: 7 }],
      ['onResult', { onResult: 'me' }],
      ['signal', { signal: {} }],
      ['backend', { backend: 'memory' }],
    ] as const)
      await expect(runGolden({ ...options, ...odd } as never)).rejects.toEqual(refused(path))
    await expect(runFlow(undefined as never, driver, 'memory')).rejects.toEqual(refused('flow'))
    await expect(runFlow(flows[0]!, {} as never, 'memory')).rejects.toEqual(refused('driver'))
    await expect(runFlow(flows[0]!, driver, '')).rejects.toEqual(refused('backend'))
    await expect(runFlow(flows[0]!, driver, 'memory', { limitMs: 0 })).rejects.toEqual(refused('limitMs'))
    expect(opened).toBe(0)
    await expect(readFlows(undefined as never)).rejects.toEqual(refused(''))
    expect(() => ownDriver({} as never)).toThrow(refused('open'))
    expect(() => report(golden, 'html' as never)).toThrow(refused('format'))
    expect(() => report({ ...golden, results: undefined } as never, 'tap')).toThrow(refused('results'))
    expect(() => compliance(undefined as never)).toThrow(InvalidInput)
    expect(() => complianceMarkdown({ ...golden, totals: 7 } as never)).toThrow(refused('totals'))
  })

  it('are refused where there are none', async () => {
    await expect(readFlows(join(tempFolder(), 'nowhere'))).rejects.toThrow('not a folder')
    await expect(readFlows(tempFolder())).rejects.toThrow('holds no flow')
  })
})
