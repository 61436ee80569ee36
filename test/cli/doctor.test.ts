import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Check } from '../../src/cli/doctor.ts'
import { checkBuses } from '../../src/cli/doctor-buses.ts'
import { checkIndexes } from '../../src/cli/doctor-indexes.ts'
import { checkNode, checkWatches } from '../../src/cli/doctor-machine.ts'
import { checkRuns } from '../../src/cli/doctor-runs.ts'
import { checkSecrets } from '../../src/cli/doctor-secrets.ts'
import { checkClock, checkDurability, checkWriting } from '../../src/cli/doctor-store.ts'
import { lacksBy } from '../../src/cli/lacks-by.ts'
import { openRuntime } from '../../src/compose.ts'
import type { Config } from '../../src/config.ts'
import { positionKey, relayStream } from '../../src/orchestrator/relay-position.ts'
import { manualClock, systemClock } from '../../src/protocol/clock.ts'
import { openProject } from '../../src/psg/project.ts'
import { reindexProject } from '../../src/psg/verify-project.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { openStore } from '../../src/vsl/vsl.ts'
import { tell } from '../orchestrator/relay-support.ts'
import { flowOf } from '../support/flows.ts'
import { freshPrefix, freshSchema, itNeeds, itOwns, privateRedis } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { hereJson } from './here.ts'

describe('the machine', () => {
  it.each([
    ['20.18.1', 'failed'],
    ['20.19.0', 'ok'],
    ['22.1.0', 'ok'],
    ['18.20.0', 'failed'],
  ])('is told whether Node %s will do: %s', (version, verdict) => {
    expect(checkNode(version).verdict).toBe(verdict)
  })

  it.each([
    [524288, 1024, 'ok', undefined],
    [8192, 1024, 'warning', 'sysctl -w fs.inotify.max_user_watches=524288'],
    [524288, 8, 'warning', 'sysctl -w fs.inotify.max_user_instances=512'],
  ])('is told what %d watches and %d watchers are good for', async (watches, instances, verdict, remedy) => {
    const limits = tempFolder()
    writeFileSync(join(limits, 'max_user_watches'), `${watches}\n`)
    writeFileSync(join(limits, 'max_user_instances'), `${instances}\n`)
    expect(await checkWatches(limits)).toMatchObject({ verdict, ...(remedy !== undefined && { remedy }) })
  })

  it('is asked nothing where there are no limits', async () => {
    expect(await checkWatches(tempFolder())).toMatchObject({ verdict: 'ok', says: 'this system sets no limit' })
  })
})

describe('the secrets', () => {
  it('are named where they are too short to be covered, and never told', () => {
    vi.stubEnv('SHORT_KEY', 'k-123\n')
    onTestFinished(() => void vi.unstubAllEnvs())
    const config = {
      models: {
        near: { provider: 'compatible', base_url: 'http://x', api_key_env: 'SHORT_KEY' },
        far: { provider: 'scripted' },
      },
      mcp: {
        tools: { url: 'http://x/?token=pw', headers: { authorization: 'Bearer 12345', 'x-mode': 'a' } },
        long: { command: 'x', env: { API_TOKEN: 'long enough', MODE: 'a' } },
      },
    } as unknown as Config
    const [check, ...more] = checkSecrets(config)
    expect(more).toEqual([])
    expect(check).toMatchObject({ check: 'secrets', verdict: 'warning' })
    expect(check?.says).toMatch(/: models\.near, mcp\.tools\.url\.token, mcp\.tools\.headers\.authorization$/)
    expect(checkSecrets({ ...config, models: {}, mcp: {} })).toEqual([])
  })
})

describe('the buses', () => {
  it('are told with how long each outside of the processes has been waiting for a commit', async () => {
    const store = memoryBackend()
    await tell(store, 'graph') // of the year's first second
    for await (const { position } of store.feed())
      await store.commit({
        ...{ stream: relayStream('redis'), expected: 0, inserts: [], deletes: [] },
        puts: [[positionKey('redis'), position]],
      })
    const buses = ['memory:', 'redis://127.0.0.1:1', 'kafka://127.0.0.1:1/events']
    const clock = manualClock({ now: Date.parse('2026-01-01T00:01:00.000Z') })
    const ok = { check: 'bus', verdict: 'ok' }
    const [redis, kafka, ...others] = await checkBuses(store, buses, clock)
    expect([redis, kafka, others]).toEqual([
      { ...ok, says: expect.stringContaining('redis is 0 s behind') },
      { ...ok, says: expect.stringContaining('kafka is 60 s behind') },
      [],
    ])
    await clock.advance(1000)
    expect((await checkBuses(store, buses, clock)).map(({ verdict }) => verdict)).toEqual(['ok', 'warning'])
  })

  it('are those of the config, and need not answer', async () => {
    const folder = tempFolder()
    const vsl = `sqlite:${join(folder, 'store.db')}`
    const store = await openStore(vsl)
    await tell(store, 'graph')
    await store.close()
    writeFileSync(join(folder, 'mplp.json'), JSON.stringify({ vsl, bus: [{ url: 'redis://127.0.0.1:1', name: 'r' }] }))
    const { code, values } = await hereJson<Check[]>(folder, ['doctor', '--config', 'mplp.json'])
    expect(code).toBe(0)
    expect(values[0]?.filter(({ check }) => check === 'bus')).toEqual([
      expect.objectContaining({ verdict: 'warning', says: expect.stringMatching(/^r is \d+ s behind/) }),
    ])
  })
})

describe('the clock of a store', () => {
  const at = (skewMs: number) => ({ facts: async () => ({ layout: 1, now: systemClock.now() + skewMs }) })

  it.each([
    [0, 'ok', /0 ms/],
    [-90_000, 'warning', /behind ours/],
    [90_000, 'warning', /ahead of ours/],
  ])('is compared with ours: %d ms', async (skew, verdict, says) => {
    const check = await checkClock(at(skew))
    expect(check).toMatchObject({ verdict, says: expect.stringMatching(says) })
    expect(check.remedy === undefined).toBe(verdict === 'ok')
  })

  it('is ours where the store has none', async () => {
    expect(await checkClock({})).toMatchObject({ verdict: 'ok' })
  })

  itNeeds('redis')('is told by Redis', async (url) => {
    const store = await openStore(url, { prefix: freshPrefix() })
    onTestFinished(() => store.close())
    const { layout, now } = (await store.facts?.()) ?? {}
    expect({ layout, isNow: Math.abs(now! - systemClock.now()) < 60_000 }).toEqual({ layout: 1, isNow: true })
  })

  itNeeds('postgres')('is told by Postgres', async (url) => {
    const store = await openStore(url, { schema: freshSchema() })
    onTestFinished(() => store.close())
    const { layout, now } = (await store.facts?.()) ?? {}
    expect({ layout, isNow: Math.abs(now! - systemClock.now()) < 60_000 }).toEqual({ layout: 2, isNow: true })
  })
})

describe('the store', () => {
  it.each([
    ['memory:', 'choose sqlite or postgres'],
    ['postgres://localhost/mplp', 'set fsync and synchronous_commit to on'],
    ['rediss://localhost', 'set appendonly yes, appendfsync always and no-appendfsync-on-rewrite no'],
  ])('is told what %s lacks to keep what it acknowledges, and nothing of other stores', (url, remedy) => {
    expect(checkDurability({ ...memoryBackend().traits, durable: false }, url)).toMatchObject({ remedy })
  })

  it('is told the remedy of what refuses it, where that knows one', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'state.db'), 'no database at all, but long enough to be read as the head of one')
    const { code, values } = await hereJson<Check[]>(folder, ['doctor', '--store', 'sqlite:./state.db'])
    expect(code).toBe(1)
    expect(values[0]!.at(-1)).toMatchObject({ verdict: 'failed', says: expect.not.stringContaining(';') })
    expect(values[0]!.at(-1)!.remedy).not.toContain('config print')
  })

  const itOnRedis = itOwns(() => privateRedis({ appendonly: false }))
  itOnRedis('is told to keep what it acknowledges, where it is a Redis that does not', async (server) => {
    await (await openStore(server.url, { onWarning: () => undefined })).close()
    const { code, err, values } = await hereJson<Check[]>(tempFolder(), ['doctor', '--store', server.url])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(values[0]).toContainEqual({
      check: 'store',
      verdict: 'warning',
      says: 'reachable, for many processes, but may lose what it has acknowledged',
      remedy: 'set appendonly yes, appendfsync always and no-appendfsync-on-rewrite no',
    })
    expect(values[0]).toContainEqual({ check: 'migrations', verdict: 'ok', says: 'layout 1, nothing to migrate' })
    expect(values[0]?.find(({ check }) => check === 'clock')).toMatchObject({ verdict: 'ok' })
  })

  itOnRedis(
    'is asked to take something, and takes nothing where its memory is full: nothing stays there',
    async (server) => {
      const store = await openStore(server.url, { prefix: freshPrefix(), onWarning: () => undefined })
      const redis = new Redis(server.url)
      onTestFinished(async () => {
        await redis.quit()
        await store.close()
      })
      expect(await checkWriting(store)).toEqual([expect.objectContaining({ check: 'writing', verdict: 'ok' })])
      for await (const [key] of store.scan('', { own: true })) expect.unreachable(key)
      await redis.config('SET', 'maxmemory', '1mb')
      const [check] = await checkWriting(store)
      expect(check).toMatchObject({ verdict: 'failed', says: expect.stringContaining('its memory is full') })
      await redis.config('SET', 'maxmemory', '0')
      expect(await checkWriting(store)).toMatchObject([{ verdict: 'ok' }])
    },
  )

  it('is not asked where opening it has written already', async () => {
    expect(await checkWriting(memoryBackend())).toEqual([])
  })
})

/** Which would not start. */
const SERVERS = { docs: { command: 'absent-on-purpose' } }

describe('runs that do not end', () => {
  it('are told with what each is waiting for, and what would help', async () => {
    const store = await openStore('memory:')
    const never = new Promise<never>(() => undefined)
    const runtime = await openRuntime({ functions: { greet: () => 1, hang: () => never } }, { store })
    const wait = (params: { [name: string]: string | number }) => ({ binding: { action_type: 'wait', params } })
    const confirm = systemClock.uuid()
    const flows = {
      signal: flowOf({ one: wait({ signal: 'go' }) }),
      timer: flowOf({ one: wait({ ms: 86_400_000 }) }),
      person: flowOf({ greet: {} }, { approval: { reason: 'really?' } }),
      back: flowOf({ greet: {} }, { approval: {}, chosen: { confirm } }),
      hang: flowOf({ hang: {} }),
    }
    const runs = await Promise.all(Object.values(flows).map((flow) => runtime.submit(flow)))
    await Promise.all(runs.slice(0, 4).map((run) => run.rest(AbortSignal.timeout(200)).catch(() => undefined)))
    await runtime.decide(confirm, { status: 'rejected', decided_by_role: 'dba' })
    const project = await openProject(store)
    const later = { ...systemClock, now: () => systemClock.now() + 3_600_000 }
    const checks = await checkRuns(project, { clock: later })
    const of = (name: keyof typeof flows) => checks.find(({ says }) => says.includes(flows[name].plan.plan_id))
    expect(of('signal')).toMatchObject({
      verdict: 'warning',
      says: expect.stringContaining('it waits for the signal go'),
      remedy: `mplp signal ${flows.signal.plan.plan_id} go`,
    })
    expect(of('timer')).toMatchObject({ verdict: 'ok', says: expect.stringContaining('it waits for the time 2') })
    expect(of('person')).toMatchObject({
      verdict: 'warning',
      says: expect.stringContaining('it waits for the decision'),
      remedy: expect.stringContaining('mplp confirm approve'),
    })
    expect(of('back')).toMatchObject({
      verdict: 'warning',
      says: expect.stringMatching(/which was sent back, to be proposed again$/),
      remedy: `mplp propose ${flows.back.plan.plan_id} asks again, mplp cancel ${flows.back.plan.plan_id} gives it up`,
    })
    expect(of('hang')).toMatchObject({
      verdict: 'warning',
      says: expect.stringMatching(/it waits for the step “hang”, attempt 1; nothing has happened for 36\d\d s/),
      remedy: 'if no worker runs: mplp resume, or mplp serve',
    })
    expect((await checkRuns(project)).find(({ says }) => says.includes(flows.hang.plan.plan_id))?.verdict).toBe('ok')
    void runtime.close() // it waits for what hangs
  })

  describe('for want of something', () => {
    const tool = (tool_name: string, action_type = 'tool_call') => ({
      binding: { action_type, params: { tool_name, tool_args: {} } },
    })
    const own = { name: 'own.tool', description: '', input: {}, execute: () => 1 }
    /** Submitted long ago by a process that drives nothing. */
    const submitted = async (vsl: string, steps: Parameters<typeof flowOf>[0]) => {
      const clock = { ...systemClock, now: () => systemClock.now() - 3_600_000 }
      const runtime = await openRuntime({ vsl }, { clock, mine: new Set() })
      const flow = flowOf(steps)
      await runtime.submit(flow)
      await runtime.close()
      return flow.plan.plan_id
    }

    it('are told with the step and what a worker with this config would lack', async () => {
      const folder = tempFolder()
      writeFileSync(join(folder, 'mplp.config.mjs'), 'export default { functions: { one: () => 1 } }')
      const plan = await submitted(`sqlite:${join(folder, '.mplp/state.db')}`, { one: {}, mail: { after: ['one'] } })
      const { values } = await hereJson<Check[]>(folder, ['doctor'])
      expect(values[0]?.filter(({ check }) => check === 'run')).toEqual([
        {
          check: 'run',
          verdict: 'warning',
          says: expect.stringMatching(
            /nothing has happened for 36\d\d s; a worker with this config would leave it: there is no function mail, which the step “mail” needs$/,
          ),
          remedy: `if no other worker runs: start one that has it, or mplp cancel ${plan}`,
        },
      ])
    })

    it.each([
      ['a signal', { signal: 'go' }, (plan: string) => `mplp signal ${plan} go; `],
      ['a signal of two words', { signal: "it's on" }, (plan: string) => `mplp signal ${plan} 'it'\\''s on'; `],
      ['a time', { ms: 86_400_000 }, () => ''],
    ])('are told so while they wait for %s, before anybody has to go on with them', async (_, params, asked) => {
      const store = await openStore('memory:')
      const runtime = await openRuntime({ functions: { mail: () => 1 } }, { store })
      const flow = flowOf({ rest: { binding: { action_type: 'wait', params } }, mail: { after: ['rest'] } })
      const { plan_id } = await runtime.submit(flow)
      await runtime.close()
      const judged = async (lacks: Parameters<typeof checkRuns>[1]) =>
        (await checkRuns(await openProject(store), lacks))[0]
      expect(await judged({ lacks: await lacksBy({ functions: { post: () => 1 } }) })).toEqual({
        check: 'run',
        verdict: 'warning',
        says: expect.stringMatching(
          /it waits for [^;]*; a worker with this config would leave it: there is no function mail, which the step “mail” needs$/,
        ),
        remedy: `${asked(plan_id)}if no other worker runs: start one that has it, or mplp cancel ${plan_id}`,
      })
      expect((await judged({ lacks: await lacksBy({ functions: { mail: () => 1 } }) }))?.says).not.toContain('leave')
    })

    it('are not told to be given a signal that lies there already', async () => {
      const store = await openStore('memory:')
      const steps = {
        rest: { binding: { action_type: 'wait', params: { signal: 'go' } } },
        other: { binding: { action_type: 'wait', params: { signal: 'stay' } } },
        mail: { after: ['rest'] },
      }
      const first = await openRuntime({ functions: { mail: () => 1 } }, { store })
      const run = await first.submit(flowOf(steps))
      await run.rest()
      await first.close()
      const second = await openRuntime({}, { store, onError: () => undefined })
      await second.signal(run.run_id, 'go')
      await second.close()
      const [check] = await checkRuns(await openProject(store))
      expect(check?.says).toContain('it waits for a worker to take in the signal go, the signal stay')
      expect(check?.remedy).toBe(`mplp signal ${run.plan_id} stay`)
    })

    it.each<[string, Parameters<typeof flowOf>[0], Config, string]>([
      ['a function', { a: {} }, { functions: { a: () => 1 } }, ''],
      ['an adapter', { a: {} }, {}, 'adapter for actions of type function'],
      ['a tool', { a: tool('own.tool') }, { tools: [own] }, ''],
      ['another tool', { a: tool('own.other') }, { tools: [own] }, 'tool own.other'],
      ['what a server may have', { a: tool('docs.find'), b: tool('docs.get', 'mcp_call') }, { mcp: SERVERS }, ''],
      ['what it cannot have', { a: tool('other.find', 'mcp_call') }, { mcp: SERVERS }, 'tool other.find'],
      ['calls of servers', { a: tool('docs.find', 'mcp_call') }, {}, 'adapter for actions of type mcp_call'],
    ])('are judged by the config, and no server is started: %s', async (_, steps, config, lack) => {
      const vsl = `sqlite:${join(tempFolder(), 'state.db')}`
      await submitted(vsl, steps)
      const store = await openStore(vsl)
      onTestFinished(() => store.close())
      const [check] = await checkRuns(await openProject(store), { lacks: await lacksBy(config) })
      expect(/there is no (.*), which/.exec(check!.says)?.[1] ?? '').toBe(lack)
    })

    it('are told all the same where the actions of the config cannot be used, which is told too', async () => {
      const folder = tempFolder()
      writeFileSync(join(folder, 'mplp.config.mjs'), 'export default { functions: { one: 1 } }')
      const plan = await submitted(`sqlite:${join(folder, '.mplp/state.db')}`, { one: {} })
      const { code, values } = await hereJson<Check[]>(folder, ['doctor'])
      expect(code).toBe(1)
      expect(values[0]).toContainEqual({
        check: 'config',
        verdict: 'failed',
        says: expect.stringContaining('functions.one'),
        remedy: 'mend what it names',
      })
      expect(values[0]?.find(({ check }) => check === 'run')?.says).toContain(plan)
    })
  })

  it('are none when all have ended', async () => {
    const project = await openProject(await openStore('memory:'))
    expect(await checkRuns(project)).toEqual([{ check: 'runs', verdict: 'ok', says: 'none is under way' }])
  })
})

describe('the list of runs that have ended', () => {
  const ended = async (count: number) => {
    const store = await openStore('memory:')
    const runtime = await openRuntime({ functions: { greet: () => 1 } }, { store })
    onTestFinished(() => runtime.close())
    for (let i = 0; i < count; i++) await (await runtime.submit(flowOf({ greet: {} }))).result()
    await runtime.submit(flowOf({ greet: {} }, { approval: {} }))
    const rows: string[] = []
    for await (const [key] of store.scan('ended/')) rows.push(key)
    /** As no version before it wrote them. */
    const without = (deletes: string[]) => store.commit({ stream: 'x', expected: 0, inserts: [], puts: [], deletes })
    return { project: await openProject(store), rows, without }
  }

  it('is said to leave runs out that an older version has ended, with what puts them there', async () => {
    const { project, rows, without } = await ended(3)
    expect(await checkIndexes(project)).toMatchObject({ check: 'indexes', verdict: 'ok' })
    await without(rows.slice(-2)) // the last one comes first
    expect(await checkIndexes(project)).toEqual({
      check: 'indexes',
      verdict: 'warning',
      says: '2 of the 3 oldest runs that have ended are not listed as such: an older version has written them',
      remedy: 'mplp store reindex',
    })
    await reindexProject(project.store, project.id)
    expect(await checkIndexes(project)).toMatchObject({ verdict: 'ok' })
  })

  it('is asked of the oldest runs only, however many there are', async () => {
    const { project, rows, without } = await ended(25)
    await without(rows)
    expect((await checkIndexes(project)).says).toMatch(/^20 of the 20 oldest runs/)
  })

  it('is complete where no run is', async () => {
    const { project } = await ended(0)
    expect(await checkIndexes(project)).toMatchObject({ verdict: 'ok' })
  })
})
