import { describe, expect, it } from 'vitest'
import type { Spend } from '../../../src/ael/adapter.ts'
import type { Budget, GateRequest } from '../../../src/ael/layer.ts'
import { ApprovalNeeded } from '../../../src/protocol/errors.ts'
import type { JsonObject } from '../../../src/protocol/json.ts'
import { type AdapterRig, type Given, thrown } from './rig.ts'

/** What an adapter says of an action beside doing it, where it says it. */
export function answers(given: Given): void {
  describe('what it says of an action', () => {
    it('calls it by a text', (context) => {
      context.skip(given.rig.adapter.label === undefined, 'it goes by the type of its actions')
      for (const params of soundParams(given.rig))
        expect(given.layerWith().label(given.action(params)), `the label of ${told(params)}`).toMatch(/\S/)
    })

    it('knows what changes nothing from what changes something', (context) => {
      const { adapter, changes } = given.rig
      context.skip(adapter.readOnly === undefined, 'it says of nothing that it is read-only')
      for (const params of soundParams(given.rig))
        expect(
          adapter.readOnly?.(params),
          `readOnly of ${told(params)}, which counts only at once and as true`,
        ).toBeTypeOf('boolean')
      if (changes)
        expect(adapter.readOnly?.(changes), `readOnly of ${told(changes)}, which changes something`).toBe(false)
    })

    it('takes no more than it has set apart', async (context) => {
      context.skip(given.rig.adapter.estimate === undefined, 'it does not say what an attempt may cost')
      const { works, large, changes } = given.rig
      for (const params of [works.params, large, ...(changes ? [changes] : [])]) {
        const { apart, spent } = await accountOf(given, params)
        for (const [unit, amount] of Object.entries(spent))
          expect(amount, `${unit} of ${told(params)}, for which ${told(apart)} was set apart`).toBeLessThanOrEqual(
            apart[unit as keyof Spend] ?? 0,
          )
      }
    })

    it('asks the same of the same action each time, and begins nothing before somebody agrees', async (context) => {
      context.skip(given.rig.adapter.approval === undefined, 'it leaves it to others who must agree')
      for (const params of soundParams(given.rig))
        for (const asker of ASKERS) {
          const [first, second] = [await questionOf(given, params, asker), await questionOf(given, params, asker)]
          expect(
            second?.digest,
            `${told(params)} would be asked about for ever: its tool or arguments differ each time`,
          ).toBe(first?.digest)
          if (first) expect(first.description, `what is asked about ${told(params)}`).toMatch(/\S/)
        }
      expect(given.events).toEqual([])
    })

    it('lets no answer to one action count for another', async (context) => {
      context.skip(given.rig.adapter.approval === undefined, 'it leaves it to others who must agree')
      const asked = new Map<string, string>()
      for (const params of soundParams(given.rig)) {
        const question = await questionOf(given, params, {})
        if (!question) continue
        const other = asked.get(question.digest)
        expect(other, `who agrees to it agrees to ${told(params)} too: arguments must tell them apart`).toBeUndefined()
        asked.set(question.digest, told(params))
      }
    })

    it('knows its secrets as texts that can be known again', (context) => {
      const { adapter } = given.rig
      context.skip(adapter.secrets === undefined, 'it knows of no secrets')
      const secrets = adapter.secrets?.()
      expect(secrets, 'the secrets').toBeInstanceOf(Array)
      for (const secret of secrets ?? [])
        expect(String(secret).trim().length, 'characters of a secret; shorter ones are not taken out').toBeGreaterThan(
          5,
        )
    })

    it('goes on from its checkpoint, and repeats nothing that came before', async (context) => {
      const { resumes, works, large, changes } = given.rig
      const layer = given.layerWith()
      if (!resumes) {
        let handedOut: string | undefined
        for (const params of [works.params, large, ...(changes ? [changes] : [])])
          await layer.attempt(given.action(params), {
            checkpoint() {
              handedOut = told(params)
            },
          })
        expect(
          handedOut,
          'what hands out a checkpoint, of which the rig does not say that it `resumes`',
        ).toBeUndefined()
        return context.skip('it hands out no checkpoint')
      }
      const asked = given.action(resumes.params)
      const failed = (await thrown(layer.attempt(asked))) as { readonly resume?: unknown }
      expect(failed, `what ${told(resumes.params)} fails with`).toMatchObject({ retryable: true })
      expect(failed.resume, 'its checkpoint').toBeDefined()
      const stored = JSON.parse(JSON.stringify(failed.resume))
      const { output } = await layer.attempt(asked, { attempt: 2, resume: stored })
      expect({ output }).toMatchObject({ output: resumes.output })
      const done = resumes.done()
      expect(done.length, 'pieces of work that were done').toBeGreaterThan(0)
      expect(done, 'what was done, each piece once').toEqual([...new Set(done)])
    })
  })
}

/** Those that its check lets pass, each once. */
function soundParams({ works, failsForGood, failsForNow, large, misshapen, changes }: AdapterRig): JsonObject[] {
  const given = [works.params, failsForGood, failsForNow, large, misshapen, changes].filter(
    (params) => params !== undefined,
  )
  return [...new Map(given.map((params) => [told(params), params])).values()]
}

/** What was set apart for one attempt, in the end, and what it took. */
async function accountOf(given: Given, params: JsonObject): Promise<{ apart: Spend; spent: Spend }> {
  let apart: Spend = {}
  let spent: Spend = {}
  const budget: Budget = {
    reserve({ spend }) {
      apart = spend
      return { state: 'ok' }
    },
    settle(_, spend) {
      spent = spend
      return { state: 'ok' }
    },
    release: () => undefined,
  }
  await given.layerWith({ budget }).attempt(given.action(params))
  return { apart, spent }
}

/** What somebody would be asked, in a project that lets nothing pass unasked; nothing where the adapter lets nobody do it. */
async function questionOf(given: Given, params: JsonObject, asker: object): Promise<GateRequest | undefined> {
  let question: GateRequest | undefined
  const layer = given.layerWith({
    admit: () => ({ allowed: true, policy: 'ask' }),
    gate(request) {
      question = request
      return { verdict: 'pending' }
    },
  })
  const error = await thrown(layer.attempt(given.action(params), asker))
  const isBlocked = (error as { readonly code?: unknown }).code === 'action_denied'
  if (!isBlocked && !(error instanceof ApprovalNeeded)) throw error
  return question
}

const ID = '00000000-0000-4000-8000-000000000001'
const ASKERS = [{}, { role: 'planner', run: { context_id: ID, plan_id: ID, step_id: ID, trace_id: ID } }]
const told = (value: unknown): string => JSON.stringify(value)
