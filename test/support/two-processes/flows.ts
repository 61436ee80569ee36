import type { Flow } from '../../../src/orchestrator/submit.ts'
import type { ManualClock } from '../../../src/protocol/clock.ts'
import { flowOf } from '../flows.ts'

/** The two runs of a world, in one context, and how the first of them may end. */
export interface Flows {
  /** The one that wishes are about: a retry, a signal, two approvals, a wait and ways back. */
  readonly main: Flow
  /** Shares the context and is left alone: nothing that is wished for the other may touch it. */
  readonly beside: Flow
  /** Its plan must be approved before it starts. */
  readonly asksFirst: boolean
  /** Its last step fails, and what was done is taken back. */
  readonly fails: boolean
  readonly hasDeadline: boolean
}

export function flowsOf(clock: ManualClock, luck: ManualClock): Flows {
  const asksFirst = luck.random() < 0.4
  const fails = luck.random() < 0.3
  const hasDeadline = luck.random() < 0.2
  const concurrency = 1 + Math.floor(luck.random() * 3)
  const deadline = new Date(clock.now() + 20_000).toISOString()
  const undone = { inverse: { action_type: 'function', params: { name: 'undo' } } }
  const main = flowOf(
    {
      fetch: { call: 'work', binding: undone },
      flaky: { after: ['fetch'], binding: { retry: { strategy: 'fixed', max_attempts: 5, delay_ms: 400 } } },
      signal: { after: ['fetch'], binding: { action_type: 'wait', params: { signal: 'go' } } },
      approve: { call: 'work', after: ['flaky'], binding: { approval: 'ask', ...undone } },
      also: { call: 'work', after: ['flaky'], binding: { approval: 'ask', ...undone } },
      pause: { after: ['signal'], binding: waitFor(700) },
      last: fails
        ? { call: 'boom', after: ['approve', 'also', 'pause'], binding: { on_failure: 'compensate' } }
        : { call: 'work', after: ['approve', 'also', 'pause'] },
    },
    {
      ...(asksFirst && { approval: { expires_ms: 60_000 } }),
      options: { concurrency, ...(hasDeadline && { deadline }) },
    },
    clock,
  )
  return { main, beside: besideIt(main, clock), asksFirst, fails, hasDeadline }
}

function besideIt({ plan: { context_id } }: Flow, clock: ManualClock): Flow {
  const flow = flowOf(
    {
      first: { binding: waitFor(1_500) },
      second: { call: 'work', after: ['first'] },
      third: { after: ['second'], binding: waitFor(2_500) },
      fourth: { call: 'work', after: ['third'] },
    },
    {},
    clock,
  )
  return { ...flow, context: context_id, plan: { ...flow.plan, context_id } }
}

const waitFor = (ms: number) => ({ action_type: 'wait', params: { ms } })
