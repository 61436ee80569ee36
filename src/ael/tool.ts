import { type Clock, systemClock } from '../protocol/clock.ts'
import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { clock as clockField, guarded, needed, object, refuseUnlessFit, text } from '../protocol/fields.ts'
import { given } from '../protocol/given.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { problem } from '../protocol/problem.ts'
import { shown } from '../protocol/shown.ts'
import { under } from '../protocol/under.ts'
import { undo } from './action.ts'
import type { Action, Adapter, Approval, Asker, Call, Inverse } from './adapter.ts'
import { registry as registryField } from './check-options.ts'
import { callFor, type Passage } from './decorate.ts'
import { aborted, finalFailure } from './failure.ts'
import { checkOutput, MAX_OUTPUT_BYTES, refuseAbove } from './outputs.ts'
import { isToolName, lacksTool, type RegisteredTool, type ToolRegistry } from './tool-registry.ts'
import { unknownParams } from './unknown-params.ts'

export { type CompiledSchema, compileSchema, type Schema, type StandardSchema } from './schema.ts'
export {
  type Effect,
  type Question,
  type RegisteredTool,
  type Tool,
  type ToolArgs,
  type ToolCall,
  type ToolRegistry,
  type ToolUse,
  toolRegistry,
} from './tool-registry.ts'

/** Does `tool_call`: params `{ tool_name, tool_args }`, the tool from the registry, its arguments and its output checked. */
export function toolAdapter(registry: ToolRegistry, options: { clock?: Clock } = {}): Adapter {
  refuseUnlessFit('tool adapter', { registry }, { registry: needed(registryField) })
  refuseUnlessFit('tool adapter', options, { clock: clockField })
  const { clock = systemClock } = options
  const found = (params: JsonObject) => registry.find(String(params.tool_name))
  const argsOf = (params: JsonObject) => params.tool_args as JsonObject

  return {
    action_type: 'tool_call',
    executor_kind: 'tool',
    paramNames: PARAMS,
    label: (params) => (isToolName(params.tool_name) ? params.tool_name : 'tool_call'),
    lacks: (params) => lacksTool(registry, params.tool_name),
    readOnly: (params) => found(params)?.readOnly ?? false,

    check(params) {
      checkShape(params)
      const wrong = registry.get(String(params.tool_name)).compiledInput.problems(argsOf(params))
      return wrong instanceof Promise ? wrong.then(refuseArgs) : refuseArgs(wrong)
    },

    approval(params, asker) {
      const tool = registry.get(String(params.tool_name))
      const args = argsOf(params)
      const { name, approvers } = tool
      const asked = { tool: name, arguments: args, description: `Run ${name}?`, ...given({ approvers }) } // who admits it may ask too
      return tool.policy === 'ask'
        ? questioned(tool, asked, args, asker)
        : { ...asked, policy: tool.policy ?? 'always_allow' }
    },

    async execute(action, call) {
      const tool = registry.get(String(action.params.tool_name))
      const output = await outputOf(tool, action, call)
      if (tool.compiledOutput) await checkOutput(tool.compiledOutput, output, tool.name)
      return output === undefined ? {} : { output }
    },

    inverse(action, outcome): Inverse {
      const tool = found(action.params)
      if (tool === undefined) return 'irreversible'
      if (tool.readOnly) return 'none_needed'
      if (tool.inverse === undefined) return 'irreversible'
      const back = tool.inverse(argsOf(action.params), outcome.output)
      return back === undefined ? 'none_needed' : undo(action, { ...back } as JsonObject, clock) // the run makes a copy that is
    },
  }
}

/** The action that takes another back, under a key of its own. */
export const undoing = guarded(
  'action',
  {
    action: needed({ says: 'an action', fits: (value) => text.fits(Object(value).action_type) }),
    params: needed(object),
    clock: needed(clockField),
  },
  undo,
)

async function questioned(
  tool: RegisteredTool,
  asked: Omit<Approval, 'policy'>,
  args: JsonObject,
  asker: Asker,
): Promise<Approval> {
  const question = await tool.requestApproval?.(args, asker)
  if (question === null) return { ...asked, policy: 'always_allow' }
  return { ...asked, policy: 'ask', description: question || asked.description }
}

const PARAMS = ['tool_name', 'tool_args']

function checkShape(params: JsonObject): void {
  const { tool_name, tool_args } = params
  const problems = unknownParams(params, PARAMS)
  if (!isToolName(tool_name)) problems.push(problem('tool_name', 'namespace', 'must be <namespace>.<name>', tool_name))
  if (!isObject(tool_args)) problems.push(problem('tool_args', 'type', 'must be an object', tool_args))
  if (problems.length > 0) throw new InvalidInput('tool_call', problems)
}

function refuseArgs(problems: readonly Problem[]): void {
  if (problems.length > 0) throw new InvalidInput('tool_call', under('tool_args', problems))
}

async function outputOf(tool: RegisteredTool, action: Action, call: Call): Promise<Json | undefined> {
  const given = await tool.execute(action.params.tool_args as JsonObject, callFor(action, call))
  return isStream(given) ? joined(given, tool.name, call) : (given as Json | undefined) // the layer looks whether it is
}

const isStream = (given: unknown): given is AsyncIterable<string> =>
  typeof given === 'object' && given !== null && Symbol.asyncIterator in given

/** Leaving the loop returns the iterator, so that a generator's `finally` runs when the call is aborted. */
async function joined(pieces: AsyncIterable<string>, name: string, call: Passage): Promise<string> {
  const { maxOutputBytes = MAX_OUTPUT_BYTES } = call
  let whole = ''
  for await (const piece of pieces) {
    if (call.signal.aborted) throw aborted(name, call.signal)
    if (typeof piece !== 'string') throw finalFailure(`${name} streamed ${shown(piece)}, which is not text`)
    whole += piece
    refuseAbove(maxOutputBytes, whole.length, name) // a character is a byte at least, and the exact count is taken of the whole
    call.onDelta(piece)
  }
  return whole
}
