import { actionLayer } from '../../src/ael/ael.ts'
import { type FunctionCall, type FunctionSpec, functionAdapter } from '../../src/ael/function.ts'
import type { Hands } from '../../src/ael/layer.ts'
import type { AtOnce } from '../../src/ael/places.ts'
import type { RuntimeOptions } from '../../src/orchestrator/runtime.ts'
import type { Flow } from '../../src/orchestrator/submit.ts'
import type { ManualClock } from '../../src/protocol/clock.ts'
import { uuidOf } from '../../src/protocol/json.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { flowOf } from './flows.ts'
import { door, until, world } from './on-a-clock.ts'

export type Functions = { readonly [name: string]: FunctionSpec }

/** A process with these functions, behind whose layer the runtime stands. */
export const having = (functions: Functions, clock: ManualClock, atOnce?: AtOnce): Pick<RuntimeOptions, 'layer'> => ({
  layer: (hands: Hands) =>
    actionLayer({
      ...hands,
      clock,
      adapters: [functionAdapter({ noop: () => null, ...functions })],
      ...(atOnce && { atOnce }),
    }),
})

/** A flow of one step that calls a function, known by a text. */
export const oneStep = (text: string, call: string, more: Partial<Flow> = {}) =>
  flowOf({ only: { call } }, { chosen: { run: uuidOf(text) }, ...more })

/** Goes on until it is told to end, or `opened`. */
export function slowly() {
  const work = { begun: 0, aborted: 0, ...door() }
  const slow: FunctionSpec = async (_args, { signal }: FunctionCall) => {
    work.begun++
    const stopped = new Promise<never>((_, reject) =>
      signal.addEventListener('abort', () => {
        work.aborted++
        reject(signal.reason)
      }),
    )
    await Promise.race([work.opened, stopped])
    return 'done'
  }
  return { work, slow }
}

/** A function that submits a child which calls `call`, and gives how it ended. */
export const parentOf =
  (call: string, more?: Partial<Flow>): FunctionSpec =>
  async (_args, { child, idempotency_key }) => {
    const { status, error } = await child(oneStep(`${idempotency_key} child`, call, more))
    return { status, ...(error && { code: error.code }) }
  }

export const childIdOf = ({ plan }: Flow) => uuidOf(`${plan.plan_id}:${plan.steps[0]!.step_id} child`)

/** A parent whose child is under way, on a clock. */
export async function underWay(
  more: {
    parent?: FunctionSpec
    step?: object
    next?: Parameters<typeof flowOf>[0]
    flow?: Partial<Flow>
    child?: Partial<Flow>
  } = {},
) {
  const { work, slow } = slowly()
  const functions: Functions = { parent: more.parent ?? parentOf('slow', more.child), slow }
  const given = world({})
  const start = (
    only: Functions = functions,
    options: Partial<RuntimeOptions> = {},
    seen?: (store: Backend) => Backend,
  ) => given.start({ ...having(only, given.clock), ...options }, seen)
  const first = await start()
  const flow = flowOf({ parent: { binding: more.step ?? {} }, ...more.next }, more.flow ?? {})
  const run = await first.submit(flow)
  await until(given.clock, () => work.begun > 0)
  return { ...given, start, first, run, flow, work, functions, child: childIdOf(flow) }
}
