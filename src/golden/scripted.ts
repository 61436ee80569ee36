import type { Adapter, Call } from '../ael/adapter.ts'
import { functionAdapter } from '../ael/function.ts'
import { ActionError } from '../protocol/errors.ts'
import type { Json } from '../protocol/json.ts'
import type { Answer, Answers } from './driver.ts'

/** The answers of a flow, and how many of each were taken. */
export interface Script {
  readonly answers: Answers
  readonly taken: Map<string, number>
  /** Told when somebody has begun to wait for an answer that does not come by itself. */
  readonly stuck: EventTarget
}

export const scriptOf = (answers: Answers): Script => ({ answers, taken: new Map(), stuck: new EventTarget() })

/** Functions and whatever else a step may be bound to: all take their answers from the script. `goesOn`: when the process was frozen and no longer is. */
export function scriptedAdapter({ answers, taken, stuck }: Script, goesOn: () => Promise<void>): Adapter {
  const { paramNames: _, ...likeFunctions } = functionAdapter({})
  return {
    ...likeFunctions,
    action_type: '*',
    check: () => undefined,
    lacks: () => undefined,
    readOnly: () => false,
    execute: async ({ params, action_type }, call) => {
      const name = String(params.name ?? params.tool_name ?? action_type)
      const list = answers[name] ?? []
      const n = taken.get(name) ?? 0
      taken.set(name, n + 1)
      const answer = list[Math.min(n, list.length - 1)]
      if (answer && ('hang' in answer || 'late' in answer)) stuck.dispatchEvent(new Event('stuck'))
      const output = await given(answer, call, goesOn)
      return output === undefined ? {} : { output }
    },
  }
}

async function given(
  answer: Answer | undefined,
  { signal }: Call,
  goesOn: () => Promise<void>,
): Promise<Json | undefined> {
  if (answer === undefined) return null
  if ('output' in answer) return answer.output
  if ('error' in answer) throw new ActionError('action_failed', answer.error, { retryable: answer.retryable ?? false })
  if ('late' in answer) {
    await goesOn()
    return answer.late
  }
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
}
