import fc from 'fast-check'
import { describe, it } from 'vitest'
import type { FunctionCall, FunctionSpec } from '../../src/ael/function.ts'
import type { BindingSpec } from '../../src/orchestrator/bind.ts'
import type { Strategy } from '../../src/orchestrator/conflict.ts'
import type { RunHandle } from '../../src/orchestrator/run.ts'
import type { Runtime } from '../../src/orchestrator/runtime.ts'
import type { SessionAsked } from '../../src/orchestrator/session.ts'
import type { Flow } from '../../src/orchestrator/submit.ts'
import type { CollabMode } from '../../src/protocol/types.ts'
import { collabDocument, contextDocument, planDocument, roleDocument } from '../support/agents.ts'
import {
  allTakenBack,
  type Death,
  deaths,
  type Fate,
  fateAt,
  type Grip,
  holders,
  workBinding,
} from '../support/held-things.ts'

/** A step of a session. */
interface TurnFate extends Fate {
  /** So many of its turns come to no end, and are taken away. */
  readonly slow: number
  /** Told to stop, it holds one thing more. */
  readonly late: boolean
  /** Whoever does it comes to the same. */
  readonly same: boolean
}
type Word = 'none' | 'acts' | 'fails'

interface Story {
  readonly mode: CollabMode
  readonly brief: Word
  readonly review: Word
  readonly strategies: readonly Strategy[]
  /** All steps write the same. */
  readonly writes: boolean
  readonly verdict: 'approved' | 'rejected'
  readonly compensate: boolean
  /** Somebody cancels when so often somebody has looked. */
  readonly cancel: number | undefined
  /** What did not complete is run once more. */
  readonly rerun: boolean
  readonly fates: readonly TurnFate[]
  readonly dying: readonly Death[]
}

const seldom = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 4 })
const turnFate = (place: number): fc.Arbitrary<TurnFate> =>
  fc.record({
    ...fateAt(place),
    slow: seldom(fc.integer({ min: 1, max: 4 })).map((turns = 0) => turns),
    late: fc.boolean(),
    same: fc.boolean(),
  })
const story: fc.Arbitrary<Story> = fc.record({
  mode: fc.constantFrom('broadcast', 'round_robin', 'orchestrated', 'swarm', 'pair'),
  brief: fc.constantFrom('none', 'acts', 'fails'),
  review: fc.constantFrom('none', 'acts', 'fails'),
  strategies: fc.constantFrom([], ['hierarchy', 'timestamp'], ['voting', 'timestamp'], ['timestamp'], ['escalation']),
  writes: fc.boolean(),
  verdict: fc.constantFrom('approved', 'rejected'),
  compensate: fc.boolean(),
  cancel: seldom(fc.nat(40)),
  rerun: fc.boolean(),
  fates: fc.integer({ min: 1, max: 4 }).chain((length) => fc.tuple(...Array.from({ length }, (_, i) => turnFate(i)))),
  dying: deaths,
})

/** Shorter than what a slow turn takes. */
const TURN_MS = 20_000

/** Lives a story through, and once more if it says so, and takes all of it back. */
async function takenBack(story: Story, seed: number) {
  const { clock, ask, comesTo, takenBack } = holders(story.dying, seed, (grip) => functionsOf(story, grip))
  const context = contextDocument(clock)
  const named = story.fates.map(({ after }, i) => [`s${i}`, { after: after.map((n) => `s${n}`) }] as const)
  const plan = planDocument(context, Object.fromEntries(named), clock)
  const members = ['ann:dev', 'bob:dev', ...(story.mode === 'pair' ? [] : ['cid:dev'])]
  const collab = collabDocument(context, story.mode, members, clock)
  await ask(async (runtime) => {
    await runtime.call('context', { intent: 'create', ...context })
    await runtime.call('role', { intent: 'create', ...roleDocument('dev', clock) })
    await runtime.call('collab', { intent: 'create', ...collab })
    await runtime.submit(flowWith(story, plan, collab.collab_id))
  })

  const ofRun = <T>(id: string, work: (run: RunHandle, runtime: Runtime) => Promise<T | undefined>) =>
    comesTo(() => ask(async (runtime) => work(await runtime.get(id), runtime)))
  const ended = (id: string, cancel?: number) => {
    let looks = 0
    return ofRun(id, async (run, runtime) => {
      if (run.phase === 'ended') return run.result()
      if (looks++ === cancel && run.phase !== 'undoing') await run.cancel()
      for (const { confirm } of await runtime.waiting())
        await runtime.decide(confirm.confirm_id, { status: story.verdict, decided_by_role: 'me' })
      return undefined
    })
  }
  let last = plan.plan_id
  const { status } = await ended(last, story.cancel)
  if (story.rerun && status !== 'completed') {
    last = await ofRun(last, async (_, runtime) => (await runtime.rerun(plan.plan_id)).plan_id)
    await ended(last)
  }
  return takenBack(context.context_id, last)
}

function functionsOf({ fates, brief, review }: Story, grip: Grip) {
  type Asked = { readonly step: number; readonly who: string }
  const turns = new Map<number, number>()
  const slowly = async ({ step, who }: Asked, call: FunctionCall) => {
    const turn = (turns.get(step) ?? 0) + 1
    turns.set(step, turn)
    const fate = fates[step]!
    if (turn > fate.slow) return
    try {
      await grip.clock.sleep(100 * TURN_MS, call.signal)
    } finally {
      if (fate.late) {
        await grip.clock.sleep(200)
        await grip.nth(fate, `${step}.${who}`, 9, call).catch(() => undefined)
      }
    }
  }
  const word =
    (kind: string, how: Word): FunctionSpec =>
    async (args, call) => {
      await grip.one(`${kind}.${(args as Asked).who}`, call.idempotency_key, call)
      if (how === 'fails') throw new Error(`no ${kind}`)
      return null
    }
  const work: FunctionSpec = async (args, call) => {
    const { step, who } = args as Asked
    const fate = fates[step]!
    await grip.all(fate, `${step}.${who}`, call)
    await slowly({ step, who }, call)
    grip.fails(step, fate.failures)
    return fate.same ? step : `${step} by ${who}`
  }
  return { work, brief: word('brief', brief), review: word('review', review) }
}

function flowWith(story: Story, plan: ReturnType<typeof planDocument>, collab_id: string): Flow {
  const { fates, brief, review, strategies, writes, compensate } = story
  const who = { $turn: 'participant_id' }
  const ids = fates.map((_, i) => plan.ids[`s${i}`]!)
  const bound = fates.map((fate, i) => [ids[i]!, { ...workBinding(fate, i, { who }), timeout_ms: TURN_MS }] as const)
  const word = (name: string): BindingSpec => ({ action_type: 'function', params: { name, args: { who } } })
  const session: SessionAsked = {
    collab_id,
    token_ms: TURN_MS,
    ...(brief !== 'none' && { brief: word('brief') }),
    ...(review !== 'none' && { review: word('review') }),
    ...(strategies.length > 0 && {
      conflicts: {
        strategies,
        ranks: { ann: 2, bob: 1 },
        ...(writes && { writes: Object.fromEntries(ids.map((id) => [id, ['log']])) }),
      },
    }),
  }
  return {
    context: plan.context_id,
    plan,
    bindings: { steps: Object.fromEntries(bound) },
    options: { profile: 'map', session, ...(compensate && { on_failure: 'compensate' }) },
  }
}

describe('what any session did', () => {
  it('is all taken back, and once, by its run itself or afterwards, but for what nobody lived to tell', async () => {
    await allTakenBack(story, takenBack, 40)
  }, 240_000)
})
