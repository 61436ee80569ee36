import { InvalidInput } from '../protocol/errors.ts'
import { digestOfJson } from '../protocol/json.ts'
import { jsonCopy } from '../protocol/json-copy.ts'
import { type FlowContract, FlowFailure, type FlowOptions } from './flow.ts'
import type { FlowMemory } from './flow-record.ts'

/**
 * Which flow a runId was begun with. How it is carried out is no part of it: that stays as it was submitted, and whoever has changed it since, as by
 * deploying anew, must be able to go on.
 */
export type Asked = { readonly profile: string; readonly flowId?: string }

export const askedBy = ({ flow }: Pick<FlowOptions, 'flow'>, profile: string): Asked =>
  flow?.flowId === undefined ? { profile } : { profile, flowId: flow.flowId }

/** The same for what is the same JSON. Whatever is none has one print: two of those cannot be told apart. */
export function printOf(input: unknown): string {
  try {
    const copy = jsonCopy(input, 'the flow', 'flow')
    return copy === undefined ? 'nothing' : digestOfJson(copy)
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    return 'not JSON'
  }
}

/** Who speaks, under which name: a module that speaks a second time is `role#2`. */
export function withNames<Step extends { readonly module: string }>(steps: readonly Step[]) {
  const times = new Map<string, number>()
  return steps.map((step, at) => {
    const time = (times.get(step.module) ?? 0) + 1
    times.set(step.module, time)
    return { ...step, at, name: time === 1 ? step.module : `${step.module}#${time}` }
  })
}

/**
 * Throws FlowFailure for a flow that is not the one which was begun under its runId: it would be given the other's answer. The input of a module
 * that has not spoken yet may change.
 */
export function refuseOther({ flow, runtimeContext }: FlowOptions, { asked, said }: FlowMemory, now: Asked): void {
  const paths = [...changedInputs(flow?.steps, said)]
  if (asked && asked.profile !== now.profile) paths.push('profile')
  if (asked && asked.flowId !== now.flowId) paths.push('flow.flowId')
  if (paths.length === 0) return
  throw new FlowFailure(
    'FLOW_DIFFERS',
    `runId ${runtimeContext.ids.runId} was begun with another flow, which differs in ${paths.join(', ')}`,
    { problems: paths.map((path) => ({ path, rule: 'same', message: 'is not what the runId was begun with' })) },
  )
}

/** Of modules that were given something, or are now. A confirm module is asked again until it has answered. */
function changedInputs(steps: FlowContract['steps'] = [], said: FlowMemory['said']): readonly string[] {
  const given = new Map(withNames(steps).map((step) => [step.name, step]))
  return Object.entries(said).flatMap(([name, { input: before }]) => {
    const step = given.get(name)
    const isSame = before === undefined || before === printOf(step?.input)
    return isSame || name === 'confirm' ? [] : [step ? `flow.steps[${step.at}].input` : 'flow.steps']
  })
}
