import { InvalidInput, NotFound, type Problem } from '../protocol/errors.ts'
import { flag, members, refuseUnlessFit } from '../protocol/fields.ts'
import { isObject, type Json, type JsonGiven, type JsonObject } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'
import { under } from '../protocol/under.ts'
import type { Adapter, Call, ExecutorKind } from './adapter.ts'
import { checkFunctionOptions } from './check-options.ts'
import { callFor } from './decorate.ts'
import { checkOutput } from './outputs.ts'
import { type CompiledSchema, compileSchema, type Schema } from './schema.ts'
import { unknownParams } from './unknown-params.ts'

/**
 * Gives what JSON can say, or a promise of it; anything else fails the action, with the place that is wrong. Who says which arguments it takes is
 * believed, as a tool is; `input` looks. Without `args` it is given nothing, so that a default holds.
 */
type Run = { run(args: JsonGiven | undefined, call: FunctionCall): unknown }['run']

export interface FunctionCall extends Call {
  readonly action_id: string
  readonly idempotency_key: string
}

/** A function, or a function with what is known of it. */
export type FunctionSpec =
  | Run
  | { readonly run: Run; readonly input?: Schema; readonly output?: Schema; readonly readOnly?: boolean }

export interface FunctionOptions {
  /** `function` when absent. */
  readonly action_type?: string
  readonly executor_kind?: ExecutorKind
}

/** Does your own functions: params `{ name, args }`. */
export function functionAdapter(
  functions: Readonly<Record<string, FunctionSpec>>,
  options: FunctionOptions = {},
): Adapter {
  checkFunctionOptions(options)
  const { action_type = 'function', executor_kind = 'worker' } = options
  if (!members.fits(functions))
    throw new InvalidInput('functions', [
      { path: '', rule: 'type', message: 'must be a plain object of functions', found: shown(functions) },
    ])
  const known = new Map(Object.entries(functions).map(([name, spec]) => [name, compiled(name, spec)]))
  const found = (params: JsonObject) => known.get(String(params.name))
  const refuseArgs = (problems: readonly Problem[]) => {
    if (problems.length > 0) throw new InvalidInput(action_type, under('args', problems))
  }

  return {
    action_type,
    executor_kind,
    paramNames: PARAMS,
    label: (params) => (found(params) === undefined ? action_type : String(params.name)),
    lacks: (params) =>
      typeof params.name !== 'string' || found(params)
        ? undefined
        : { what: 'function', name: params.name, known: [...known.keys()] },
    readOnly: (params) => found(params)?.readOnly ?? false,

    check(params) {
      const unknown = unknownParams(params, PARAMS)
      if (unknown.length > 0) throw new InvalidInput(action_type, unknown)
      if (typeof params.name !== 'string')
        throw new InvalidInput(action_type, [
          { path: 'name', rule: 'type', message: 'must be text', found: shown(params.name) },
        ])
      const spec = found(params)
      if (spec === undefined) throw new NotFound('function', params.name)
      const wrong = spec.input?.problems(params.args) ?? []
      return wrong instanceof Promise ? wrong.then(refuseArgs) : refuseArgs(wrong)
    },

    async execute(action, call) {
      const spec = found(action.params)
      if (spec === undefined) throw new NotFound('function', String(action.params.name))
      const output = (await spec.run(action.params.args, callFor(action, call))) as Json | undefined // the layer looks whether it is
      if (spec.output) await checkOutput(spec.output, output, String(action.params.name))
      return output === undefined ? {} : { output }
    },

    inverse: (action) => (found(action.params)?.readOnly ? 'none_needed' : 'irreversible'),
  }
}

const PARAMS = ['name', 'args']

interface Compiled {
  readonly run: Run
  readonly readOnly: boolean
  readonly input: CompiledSchema | undefined
  readonly output: CompiledSchema | undefined
}

function compiled(name: string, spec: FunctionSpec): Compiled {
  if (typeof spec === 'function') return { run: spec, readOnly: false, input: undefined, output: undefined }
  if (!isObject(spec) || typeof spec.run !== 'function')
    throw new InvalidInput('functions', [
      { path: name, rule: 'type', message: 'must be a function', found: shown(spec) },
    ])
  const { run, input, output, readOnly = false } = spec
  refuseUnlessFit('functions', { [`${name}.readOnly`]: readOnly }, { '*': flag })
  return {
    run: run.bind(spec),
    readOnly,
    input: input === undefined ? undefined : compileSchema(input, `${name}.input`),
    output: output === undefined ? undefined : compileSchema(output, `${name}.output`),
  }
}
