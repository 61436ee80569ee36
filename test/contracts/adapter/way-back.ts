import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import type { Inverse } from '../../../src/ael/adapter.ts'
import type { JsonObject } from '../../../src/protocol/json.ts'
import type { Given } from './rig.ts'

/** Taking back what was done, where the adapter says how. */
export function wayBack(given: Given): void {
  describe('the way back', () => {
    it('says at once what takes an action back, with parameters that it takes itself, and without a secret', async (context) => {
      const { adapter, works, changes } = given.rig
      context.skip(adapter.inverse === undefined, 'it says of nothing what takes it back')
      for (const params of [works.params, ...(changes ? [changes] : [])]) {
        const back = await doneAndBack(given, params)
        for (const secret of adapter.secrets?.() ?? [])
          expect(inspect(back, { depth: 20 }), 'what takes it back, which is stored').not.toContain(secret)
        if (typeof back === 'string' || back.action_type !== adapter.action_type) continue
        await given.layerWith().check(given.action(back.params))
      }
    })

    it('needs none for what changes nothing', async (context) => {
      const { adapter, works } = given.rig
      context.skip(adapter.readOnly?.(works.params) !== true, 'it does not say of what works that it changes nothing')
      expect(await doneAndBack(given, works.params)).toBe('none_needed')
    })

    it('leads to where it was before', async (context) => {
      const { adapter, changes, changed } = given.rig
      if (adapter.inverse === undefined || changes === undefined)
        return context.skip('it changes nothing, or does not say what takes it back')
      const before = await changed?.()
      const back = await doneAndBack(given, changes)
      if (typeof back === 'string') return context.skip(`it says of its change: ${back}`)
      if (back.action_type !== adapter.action_type) return context.skip(`${back.action_type} takes it back`)
      if (changed === undefined)
        throw new Error('the rig does not say what is `changed`, and the adapter names an action that takes it back')
      expect(await changed(), 'what `changes` has changed').not.toEqual(before)
      await given.layerWith().execute(given.action(back.params))
      expect(await changed(), 'what it says takes it back leaves').toEqual(before)
    })
  })
}

/** As a run asks: once it is done, with nothing but the output that is kept. */
async function doneAndBack(given: Given, params: JsonObject): Promise<Inverse> {
  const layer = given.layerWith()
  const action = given.action(params)
  const { output } = await layer.execute(action)
  return layer.inverse(action, output === undefined ? {} : { output })
}
