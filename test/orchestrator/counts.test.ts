import { beforeEach, describe, expect, it, vi } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import type { JsonGiven } from '../../src/protocol/json.ts'
import type { EntryBody } from '../../src/psg/change.ts'
import type { Backend, Write } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { flowOf, runtimeOf, type StepSpec } from '../support/flows.ts'

/** What a workload asks of the store and of the validators, from the submission to the end of the last run. */
interface Counts {
  readonly commits: number
  /** Every other call that travels to the store: get, set, getMany, scan, head, read, feed, acquire, renew, release, putBlob, getBlob. */
  readonly otherCalls: number
  readonly entries: number
  /** Of keys, values and entries as JSON. */
  readonly bytes: number
  readonly events: number
  readonly validations: number
}

/**
 * The cost of the standard workloads where no noise reaches it. When a change moves a number, look whether it had to, say why in the commit, and put
 * in what the failing test prints. More commits or calls per step is a step back on every store with a network in front of it.
 */
const EXPECTED: { readonly [workload: string]: Counts } = {
  'a chain of 200 steps': {
    commits: 202,
    otherCalls: 2,
    entries: 202,
    bytes: 694986,
    events: 1413,
    validations: 209,
  },
  'a fan-out 1 -> 200 -> 1': {
    commits: 11,
    otherCalls: 2,
    entries: 11,
    bytes: 632008,
    events: 1234,
    validations: 211,
  },
  '100 plans of five steps': {
    commits: 700,
    otherCalls: 200,
    entries: 700,
    bytes: 2438200,
    events: 4800,
    validations: 1400,
  },
}

let validations = 0
vi.mock('../../src/protocol/generated/validators.ts', async (original) => {
  const { validators } = await original<{ validators: { [kind: string]: (value: unknown) => boolean } }>()
  const counted = Object.entries(validators).map(([kind, accepts]) => [
    kind,
    (value: unknown) => {
      validations++
      return accepts(value)
    },
  ])
  return { validators: Object.fromEntries(counted) }
})

describe('the cost of a step', () => {
  beforeEach(() => {
    validations = 0
  })

  it.each([
    ['a chain of 200 steps', [chain(200)], 1],
    ['a fan-out 1 -> 200 -> 1', [fan(200)], 1],
    ['100 plans of five steps', Array.from({ length: 100 }, () => chain(5)), 50],
  ] as const)('stays the same for %s', async (workload, plans, atOnce) => {
    const counts = await counted(plans, atOnce)
    expect(
      counts,
      `the costs have changed; if they were meant to, EXPECTED holds\n${printed(workload, counts)}`,
    ).toEqual(EXPECTED[workload])
  })

  it('is one commit and no other call to the store for a step of a chain', async () => {
    const [short, long] = [await counted([chain(10)], 1), await counted([chain(110)], 1)]
    expect((long.commits - short.commits) / 100).toBe(1)
    expect(long.otherCalls - short.otherCalls).toBe(0)
  })

  it('is the same for its hundredth attempt as for its second', async () => {
    const bytesOf = async (attempts: number) => (await counted([retried(attempts)], 1)).bytes
    const [few, some, many] = [await bytesOf(10), await bytesOf(20), await bytesOf(110)]
    const [early, late] = [(some - few) / 10, (many - few) / 100]
    expect(late).toBeLessThan(1.1 * early) // their numbers have more digits
  })
})

type Steps = { readonly [name: string]: StepSpec }

function chain(length: number): Steps {
  const steps = Array.from({ length }, (_, i) => [`s${i}`, { call: 'noop', ...(i > 0 && { after: [`s${i - 1}`] }) }])
  return Object.fromEntries(steps)
}

/** One step, which fails until the last of so many attempts. */
const retried = (attempts: number): Steps => ({
  step: { binding: { params: { name: 'flaky', args: attempts }, retry: { max_attempts: attempts, delay_ms: 0 } } },
})

function fan(width: number): Steps {
  const middle = Array.from({ length: width }, (_, i) => `m${i}`)
  return {
    first: { call: 'noop' },
    ...Object.fromEntries(middle.map((name) => [name, { call: 'noop', after: ['first'] }])),
    last: { call: 'noop', after: middle },
  }
}

async function counted(plans: readonly Steps[], atOnce: number): Promise<Counts> {
  const clock = manualClock()
  const { store, counts } = countingStore(memoryBackend({ clock }))
  const flaky = (attempts: JsonGiven, { attempt }: { readonly attempt: number }) => {
    if (attempt < Number(attempts)) throw new Error('not yet')
    return null
  }
  const runtime = await runtimeOf({ flaky }, { store, clock })
  const before = { ...counts(), validations }
  const flows = plans.map((steps) => flowOf(steps, {}, clock))
  const worker = async () => {
    for (let flow = flows.pop(); flow; flow = flows.pop()) {
      const { status } = await (await runtime.submit(flow)).result()
      expect(status).toBe('completed')
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  const after = { ...counts(), validations }
  await runtime.close()
  expect(runtime.errors).toEqual([])
  const names = Object.keys(after) as (keyof Counts)[]
  return Object.fromEntries(names.map((name) => [name, after[name] - before[name]])) as unknown as Counts
}

/** Any store, counting what is asked of it. */
function countingStore(store: Backend): { store: Backend; counts: () => Omit<Counts, 'validations'> } {
  const counts = { commits: 0, otherCalls: 0, entries: 0, bytes: 0, events: 0 }
  const counting = new Proxy(store, {
    get(target, name) {
      const method = Reflect.get(target, name)
      if (typeof method !== 'function' || name === 'close') return method
      return (...args: unknown[]) => {
        if (name === 'commit') countWrite(args[0] as Write)
        else counts.otherCalls++
        return method.apply(target, args)
      }
    },
  })
  function countWrite({ entry, inserts, puts, deletes }: Write): void {
    counts.commits++
    counts.bytes += JSON.stringify([inserts, puts, deletes, entry ?? null]).length
    if (entry === undefined) return
    counts.entries++
    counts.events += (entry as unknown as EntryBody).events.length
  }
  return { store: counting, counts: () => ({ ...counts }) }
}

function printed(workload: string, counts: Counts): string {
  const fields = Object.entries(counts).map(([name, count]) => `${name}: ${count}`)
  return `  '${workload}': { ${fields.join(', ')} },`
}
