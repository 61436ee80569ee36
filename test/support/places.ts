import { actionLayer } from '../../src/ael/ael.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import type { AtOnce } from '../../src/ael/places.ts'
import type { BindingSpec } from '../../src/orchestrator/bind.ts'
import { ActionError } from '../../src/protocol/errors.ts'
import type { StepSpec } from './flows.ts'
import { until, world } from './on-a-clock.ts'

/** A step whose end is in the test's hand. */
export const working = (name: string, binding: Partial<BindingSpec> = {}, after: readonly string[] = []): StepSpec => ({
  after,
  binding: { params: { name: 'work', args: name }, ...binding },
})

/** Processes on one store with so many places each; `begun` is what was carried out, in order. */
export function withPlaces(atOnce: AtOnce) {
  const begun: string[] = []
  const under = new Map<string, { readonly end: () => void; readonly fail: () => void }>()
  const work = (args: unknown, { signal }: { readonly signal: AbortSignal }) =>
    new Promise<string>((resolve, reject) => {
      const name = String(args)
      begun.push(name)
      const over = (settle: () => void) => () => {
        under.delete(name)
        settle()
      }
      under.set(name, {
        end: over(() => resolve(name)),
        fail: over(() => reject(new ActionError('action_failed', 'not yet', { retryable: true }))),
      })
      signal.addEventListener(
        'abort',
        over(() => reject(signal.reason)),
      )
    })
  const noop = () => null
  const given = world({})
  const { clock } = given
  const layerWith = (places: AtOnce) =>
    actionLayer({
      atOnce: places,
      adapters: ['function', 'other'].map((action_type) => functionAdapter({ work, noop }, { action_type })),
      clock,
    })
  const end = async (name: string, how: 'end' | 'fail' = 'end') => {
    await until(clock, () => under.has(name))
    under.get(name)![how]()
    await until(clock, () => !under.has(name))
  }
  return {
    ...given,
    begun,
    end,
    layerWith,
    async start(...[options = {}, seen]: Parameters<typeof given.start>) {
      const layer = layerWith(atOnce)
      return { layer, ...(await given.start({ layer, ...options }, seen)) }
    },
    async endAll(...names: readonly string[]) {
      for (const name of names) await end(name)
    },
  }
}
