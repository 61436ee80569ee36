import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { clock as clocks, members, timeout } from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import { type Blame, blaming } from '../protocol/problem.ts'
import { messageOf } from '../protocol/thrown.ts'
import { MAX_KEY_BYTES } from '../vsl/backend.ts'
import { isName } from '../vsl/check-input.ts'
import { isBareStore } from '../vsl/lifted.ts'
import { recordKey } from './flow-record.ts'
import { isRegistry } from './registry.ts'
import { runningProblems } from './submit-check.ts'

/** Throws InvalidInput for what cannot be a call. */
export function checkFlowOptions(options: unknown, flowKeys: readonly string[]): void {
  const problems: Problem[] = [...unreadable(options, OPTIONS)]
  if (problems.length === 0)
    problems.push(
      ...unreadable(Object(options).runtimeContext, CONTEXT_KEYS, 'runtimeContext.'),
      ...unreadable(Object(options).flow, flowKeys, 'flow.'),
    )
  if (problems.length > 0) throw new InvalidInput('flow', problems)
  const wrong = blaming(problems)
  const {
    flow = {},
    runtimeContext,
    modules,
    vsl,
    ael,
    bus = [],
    signal,
    patienceMs,
    clock,
    onError,
  } = Object(options) as Options
  /** What throws in it while it is looked at is told by its name. */
  const look = (name: string, check: () => void) => {
    try {
      check()
    } catch (error) {
      problems.push(unread(name, error))
    }
  }
  look('', () => {
    for (const key of Object.keys(Object(options)))
      if (!OPTIONS.includes(key)) wrong(key, 'extra_forbidden', `is not an option; known are ${OPTIONS.join(', ')}`)
  })
  look('runtimeContext', () => checkContext(runtimeContext, wrong))
  look('modules', () => checkModules(modules, wrong))
  look('vsl', () => {
    if (!isBareStore(vsl)) wrong('vsl', 'store', 'must have get and set', vsl)
  })
  look('ael', () => {
    if (ael === undefined || typeof ael === 'function') return
    const { execute, attempt: _ } = Object(ael)
    if (typeof execute !== 'function') wrong('ael.execute', 'type', 'must be a function', ael)
  })
  look('bus', () => {
    for (const [i, transport] of [bus].flat().entries())
      if (typeof Object(transport).publish !== 'function') wrong(`bus[${i}]`, 'type', 'must be a transport', transport)
  })
  if (onError !== undefined && typeof onError !== 'function') wrong('onError', 'type', 'must be a function', onError)
  if (signal !== undefined && !(signal instanceof AbortSignal))
    wrong('signal', 'type', 'must be an AbortSignal', signal)
  if (patienceMs !== undefined && !timeout.fits(patienceMs))
    wrong('patienceMs', 'range', `must be ${timeout.says}`, patienceMs)
  look('clock', () => {
    if (clock !== undefined && !clocks.fits(clock)) wrong('clock', 'type', `must be ${clocks.says}`, clock)
  })
  look('flow', () => {
    if (!isObject(flow)) return wrong('flow', 'type', 'must be an object', flow)
    checkFlow(flow, flowKeys, wrong)
    problems.push(...runningProblems(flow, 'flow'))
  })
  if (problems.length > 0) throw new InvalidInput('flow', problems)
}

type Options = Record<string, unknown>

const CONTEXT_KEYS = ['ids', 'coordination', 'events', 'options']
const OPTIONS = ['flow', 'runtimeContext', 'modules', 'vsl', 'ael', 'bus', 'signal', 'patienceMs', 'clock', 'onError']
/** Modules whose one document the whole flow is about. */
export const ONCE: readonly string[] = ['context', 'plan', 'confirm', 'trace', 'collab']
/** What the runtime context and the output hold beside what modules say: of a module with such a name one of the two would be lost. */
const TAKEN = ['ids', 'coordination', 'metadata', 'events', 'options', 'steps', 'resources', '__proto__']
const LONGEST_ID = MAX_KEY_BYTES - recordKey('').length
export const FLOW_KEYS = ['flowId', 'description', 'steps', 'bindings', 'approval', 'options']

/** What throws when it is read: all else could only say so in its own words. */
function unreadable(value: unknown, names: readonly string[], at = ''): readonly Problem[] {
  return names.flatMap((name) => {
    try {
      void Object(value)[name]
      return []
    } catch (error) {
      return [unread(`${at}${name}`, error)]
    }
  })
}

const unread = (path: string, error: unknown): Problem => ({
  path,
  rule: 'readable',
  message: `threw while it was read: ${messageOf(error)}`,
})

function checkModules(modules: unknown, wrong: Blame): void {
  if (!isObject(modules) || !(isRegistry(modules) || members.fits(modules)))
    return wrong('modules', 'type', 'must be a plain object of handlers', modules)
  if (isRegistry(modules)) return
  for (const [name, handler] of Object.entries(modules))
    if (handler !== undefined && typeof handler !== 'function')
      wrong(`modules.${name}`, 'type', 'must be a function', handler)
}

function checkContext(context: unknown, wrong: Blame): void {
  if (!isObject(context)) return wrong('runtimeContext', 'type', 'must be an object', context)
  const { ids, coordination, events, options = {} } = context
  if (!isObject(ids) || typeof ids.runId !== 'string' || ids.runId === '')
    wrong('runtimeContext.ids.runId', 'type', 'must be text', Object(ids).runId)
  else if (!isName(recordKey(ids.runId)))
    wrong('runtimeContext.ids.runId', 'key', `must be well-formed text of 1 to ${LONGEST_ID} bytes without U+0000`)
  if (!isObject(coordination)) wrong('runtimeContext.coordination', 'type', 'must be an object', coordination)
  if (!Array.isArray(events)) wrong('runtimeContext.events', 'type', 'must be a list', events)
  for (const [name, value] of Object.entries({ coordination, events }))
    if (!Object.isExtensible(Object(value)))
      wrong(`runtimeContext.${name}`, 'extensible', 'must not be frozen: what happens is told in it')
  if (!isObject(options)) return wrong('runtimeContext.options', 'type', 'must be an object', options)
  const { maxRetries = 0, snapshotEveryStep = true, ...others } = options
  if (!Number.isSafeInteger(maxRetries) || (maxRetries as number) < 0)
    wrong('runtimeContext.options.maxRetries', 'minimum', 'must be a whole number, at least 0', maxRetries)
  if (snapshotEveryStep !== true)
    wrong(
      'runtimeContext.options.snapshotEveryStep',
      'const',
      'cannot be switched off: every step is stored',
      snapshotEveryStep,
    )
  for (const key of Object.keys(others)) wrong(`runtimeContext.options.${key}`, 'extra_forbidden', 'is not an option')
}

function checkFlow(flow: Record<string, unknown>, keys: readonly string[], wrong: Blame): void {
  for (const key of Object.keys(flow))
    if (!keys.includes(key))
      wrong(`flow.${key}`, 'extra_forbidden', `is not part of a flow; known are ${keys.join(', ')}`)
  const { session, options } = flow
  if (session !== undefined && !isObject(session)) wrong('flow.session', 'type', 'must be an object', session)
  if (Object(session).collab_id !== undefined)
    wrong('flow.session.collab_id', 'extra_forbidden', 'is that of the Collab which the flow makes')
  if (Object(options).profile !== undefined)
    wrong('flow.options.profile', 'extra_forbidden', 'is told by the function that runs the flow')
  if (Object(options).session !== undefined)
    wrong(
      'flow.options.session',
      'extra_forbidden',
      'is that of the Collab; what it does not say belongs into flow.session',
    )
  if (flow.steps === undefined) return
  if (!Array.isArray(flow.steps)) return wrong('flow.steps', 'type', 'must be a list', flow.steps)
  const seen = new Set<string>()
  for (const [i, step] of flow.steps.entries()) {
    const { module, input: _ } = Object(step)
    if (typeof module !== 'string' || module === '') {
      wrong(`flow.steps[${i}].module`, 'type', 'must be a name', module)
      if (!(i in flow.steps)) return // a list with one step at a place far away
    } else if (seen.has(module) && ONCE.includes(module))
      wrong(`flow.steps[${i}].module`, 'unique', 'speaks once in a flow', module)
    else if (TAKEN.includes(module))
      wrong(
        `flow.steps[${i}].module`,
        'taken',
        'is what something else is told under: call the module otherwise',
        module,
      )
    seen.add(module)
  }
}
