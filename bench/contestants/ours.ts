import { randomBytes, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { actionLayer } from '../../src/ael/ael.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import { memoryTransport } from '../../src/bus/memory.ts'
import { relay } from '../../src/orchestrator/relay.ts'
import { createRuntime, type Runtime } from '../../src/orchestrator/runtime.ts'
import type { Flow } from '../../src/orchestrator/submit.ts'
import { VERSION } from '../../src/protocol/version.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { type Backend, openStore } from '../../src/vsl/vsl.ts'
import type { Open, Place } from './contestant.ts'

const DURABILITY = {
  memory: 'none',
  sqlite: 'each step fsynced (WAL, synchronous FULL)',
  postgres: 'each step fsynced (synchronous_commit on)',
  redis: 'each step fsynced (appendfsync always)',
  own: '',
} as const

/** This runtime with one function and a store: every step checked, journaled, traced, and its events written. */
export const open: Open = async (place, work) => {
  const store = await storeOf(place)
  const layer = actionLayer({
    adapters: [
      functionAdapter({
        noop: (_, { idempotency_key }) => {
          work(idempotency_key)
          return null
        },
      }),
    ],
  })
  const runtime = await createRuntime({ store, layer })
  const told = place.extra === 'bus' ? await attachBus(store) : undefined
  const options: Flow['options'] = {
    concurrency: 256,
    ...(place.extra === 'no-profile' && { profile: 'none' as const }),
  }
  const run = (flow: Flow) => (place.extra === 'approval' ? runApproved(runtime, flow) : runAtOnce(runtime, flow))

  return {
    version: VERSION,
    durability: DURABILITY[place.store],
    chain: (steps) => run(chainOf(steps, { options })),
    fan: (width) => run(fanOf(width, options)),
    async waiting(plans) {
      for (let at = 0; at < plans; at += 50)
        await Promise.all(Array.from({ length: 50 }, () => runtime.submit(chainOf(5, { approval: {} }))))
    },
    async resume() {
      const runs = await runtime.list()
      await Promise.all(runs.map((one) => one.result()))
    },
    async close() {
      await told?.close()
      await runtime.close()
      await store.close()
    },
  }
}

async function storeOf({ store, url, folder, name, extra }: Place): Promise<Backend> {
  const sealed = extra === 'encryption' && { encryption: [{ id: 'bench', key: randomBytes(32) }] }
  if (store === 'memory') return openStore('memory:', { ...sealed })
  if (store === 'sqlite') return openStore(`sqlite:${join(folder, 'state.db')}`, { ...sealed })
  return openStore(url, { ...(store === 'redis' ? { prefix: name } : { schema: name }), ...sealed })
}

/** A bus of this process with one subscriber, fed by a relay as in any composed runtime. */
async function attachBus(store: Backend): Promise<{ close(): Promise<void> }> {
  const transport = memoryTransport()
  await transport.subscribe({}, () => undefined, { overflow: 'wait' })
  const running = relay({ store, transport, name: 'bench', holder: thisHolder('bench'), exclusive: false })
  return {
    async close() {
      await running.close()
      await transport.close()
    },
  }
}

async function runAtOnce(runtime: Runtime, flow: Flow): Promise<void> {
  const { status } = await (await runtime.submit(flow)).result()
  if (status !== 'completed') throw new Error(`the run ended ${status}`)
}

/** The plan is put before a person, who approves it at once. */
async function runApproved(runtime: Runtime, flow: Flow): Promise<void> {
  const confirm = flow.plan.plan_id
  const run = await runtime.submit({ ...flow, approval: {}, chosen: { confirm } })
  await runtime.decide(confirm, { status: 'approved', decided_by_role: 'person' })
  const { status } = await run.result()
  if (status !== 'completed') throw new Error(`the run ended ${status}`)
}

const chainOf = (length: number, more: Asked): Flow => flowOf(length, (i) => (i === 0 ? [] : [i - 1]), more)

function fanOf(width: number, options: Flow['options']): Flow {
  const middle = Array.from({ length: width }, (_, i) => i + 1)
  return flowOf(width + 2, (i) => (i === 0 ? [] : i <= width ? [0] : middle), { options })
}

type Asked = Pick<Flow, 'approval'> & { readonly options?: Flow['options'] }

/** Steps that all call `noop`, each after those at the places that `after` tells. */
function flowOf(length: number, after: (at: number) => readonly number[], { options, ...more }: Asked): Flow {
  const meta = { protocol_version: '1.0.0', schema_version: '1.0.0' }
  const context_id = randomUUID()
  const ids = Array.from({ length }, () => randomUUID())
  return {
    context: { meta, context_id, root: { domain: 'bench', environment: 'ci' }, title: 'A benchmark', status: 'active' },
    plan: {
      meta,
      plan_id: randomUUID(),
      context_id,
      title: 'A plan',
      objective: 'To be run',
      status: 'draft',
      steps: ids.map((step_id, i) => {
        const dependencies = after(i).map((at) => ids[at]!)
        const step = { step_id, description: `s${i}`, status: 'pending' as const, agent_role: 'worker' }
        return i > 0 ? { ...step, dependencies } : step
      }),
    },
    bindings: { roles: { worker: { action_type: 'function', params: { name: 'noop' } } } },
    ...(options && { options }),
    ...more,
  }
}
