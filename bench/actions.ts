import { newAction } from '../src/ael/action.ts'
import type { Adapter, Call } from '../src/ael/adapter.ts'
import { actionLayer } from '../src/ael/ael.ts'
import { functionAdapter } from '../src/ael/function.ts'
import { toolAdapter } from '../src/ael/tool.ts'
import { type Tool, toolRegistry } from '../src/ael/tool-registry.ts'
import { withAdmission } from '../src/ael/with-admission.ts'
import { Closed } from '../src/protocol/errors.ts'
import { tell } from './report.ts'

// What the layer adds to an action, in microseconds of CPU: every decorator around a function that does nothing, admission alone, and
// admission of one tool among ten to ten thousand. The sides take turns, and the least disturbed round of each counts.
// npx tsx bench/actions.ts

const ROUNDS = 15
const CALLS = 4_000

const params = { name: 'noop', args: { a: 1 } }
const noop = functionAdapter({ noop: () => null })
const call: Call = {
  signal: new AbortController().signal,
  onDelta: () => undefined,
  attempt: 1,
  execution_id: '00000000-0000-4000-8000-000000000001',
  depth: 0,
  checkpoint: () => undefined,
  untimed: (wait) => wait,
  act: () => Promise.reject(new Closed('the bench')),
  child: () => Promise.reject(new Closed('the bench')),
}

const layer = actionLayer({
  adapters: [noop],
  secrets: ['a secret of this bench'],
  emit: () => undefined,
  admit: () => ({ allowed: true }),
  budget: { reserve: () => ({ state: 'ok' }), settle: () => ({ state: 'ok' }), release: () => undefined },
  cache: { ttlMs: 60_000 }, // the function is not read-only: the cache is asked and has nothing to say
  retry: { strategy: 'exponential', max_attempts: 3 },
})
const action = newAction({ action_type: 'function', params })
const signal = new AbortController().signal

const tool = (n: number): Tool => ({
  name: `ns-${n % 100}.tool-${n}`,
  description: 'does nothing',
  input: { type: 'object', properties: { city: { type: 'string' }, days: { type: 'integer' } }, required: ['city'] },
  execute: () => null,
})
const toolsOf = (count: number): Adapter => toolAdapter(toolRegistry(Array.from({ length: count }, (_, n) => tool(n))))
const admission = (count: number) => {
  const bare = toolsOf(count)
  const admitted = withAdmission({ ...bare, execute: async () => ({}) }, { admit: () => ({ allowed: true }) })
  // The same ten names in turn: how many others there are is what may not matter, not how many fit into the processor's caches.
  const asked = Array.from({ length: 10 }, (_, i) => ({
    ...action,
    params: { tool_name: tool((i * count) / 10).name, tool_args: { city: 'Oslo', days: 3 } },
  }))
  let n = 0
  return () => admitted.execute(asked[n++ % 10]!, call)
}

const best = await inTurns({
  'the function itself': () => noop.execute(action, call),
  'the whole stack': () => layer.execute(action),
  'the whole stack, with a signal': () => layer.execute(action, { signal, role: 'worker' }),
  'admission, 10 tools': admission(10),
  'admission, 100 tools': admission(100),
  'admission, 1,000 tools': admission(1_000),
  'admission, 10,000 tools': admission(10_000),
})
tell(
  'What the action layer adds',
  Object.fromEntries(Object.entries(best).map(([name, micros]) => [name, { 'µs of CPU': Number(micros.toFixed(2)) }])),
  'the least disturbed of 15 rounds',
)
await layer.close()

async function inTurns(sides: Readonly<Record<string, () => Promise<unknown>>>): Promise<Record<string, number>> {
  const least: Record<string, number> = {}
  for (let round = 0; round < ROUNDS; round++)
    for (const [name, side] of Object.entries(sides)) {
      const before = process.cpuUsage()
      for (let i = 0; i < CALLS; i++) await side()
      const { user, system } = process.cpuUsage(before)
      least[name] = Math.min(least[name] ?? Number.POSITIVE_INFINITY, (user + system) / CALLS)
    }
  return least
}
