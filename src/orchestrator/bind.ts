import type { ExecutorKind } from '../ael/adapter.ts'
import type { ActionLayer } from '../ael/layer.ts'
import { isPromised, PROMISED } from '../ael/promised.ts'
import { InvalidInput, MplpError, type Problem } from '../protocol/errors.ts'
import { problemsIn } from '../protocol/fields.ts'
import { isObject, type JsonObject } from '../protocol/json.ts'
import { blaming } from '../protocol/problem.ts'
import { messageOf } from '../protocol/thrown.ts'
import type { Role, Step } from '../protocol/types.ts'
import type { Binding } from '../psg/change.ts'
import { plain } from '../psg/plain.ts'
import { type Dependence, unheld } from './depends.ts'
import { eachReference, referenceProblems } from './references.ts'
import { BINDING, bindingProblems } from './submit-check.ts'

/** How a step is executed, as a flow says it. */
export type BindingSpec = Omit<Binding, 'binding_id' | 'step_id'>

export interface Bindings {
  readonly steps?: { readonly [step_id: string]: BindingSpec }
  readonly roles?: { readonly [role: string]: BindingSpec }
}

/** The last to be asked how a step is executed. */
export type Resolver = (step: Step) => BindingSpec | undefined

/** A role of the project, by its id or name. */
export type RoleFinder = (idOrName: string) => Role | undefined

/** A binding for every step: its own, its role's by id or name, or what the resolver says. Throws InvalidInput naming each step that has none. */
export function bindSteps(
  steps: readonly Step[],
  bindings: Bindings,
  resolve: Resolver | undefined,
  idOf: (step: string) => string,
  roleOf?: RoleFinder,
): readonly Binding[] {
  const problems: Problem[] = []
  const wrong = blaming(problems)
  const far: (Dependence & { readonly at: string })[] = []
  const known = new Set(steps.map((step) => step.step_id))
  for (const id of Object.keys(bindings.steps ?? {}))
    if (!known.has(id)) wrong(`bindings.steps.${id}`, 'reference.resolves', 'names a step that the plan does not have')
  const bound = steps.flatMap((step, i) => {
    const given = bindings.steps?.[step.step_id] ?? bindingOfRole(bindings, step.agent_role, roleOf)
    const spec = given ?? (resolve && resolved(resolve, step, i))
    if (!spec) {
      const who = step.agent_role === undefined ? 'no role' : `role ${step.agent_role}`
      wrong(`plan.steps[${i}]`, 'binding', `has no binding: step ${step.step_id} (${step.description}), ${who}`)
      return []
    }
    const path = `bindings.steps.${step.step_id}`
    const misfits = given ? [] : resolvedProblems(spec, path)
    problems.push(...misfits)
    if (misfits.length > 0) return []
    problems.push(...bindingProblems(spec, path))
    const refers = (itself: string | undefined) => (reference: JsonObject, at: string) => {
      const { $from: from } = reference
      problems.push(...referenceProblems(reference, at))
      if (typeof from !== 'string') return
      if (from !== itself && !step.dependencies?.includes(from)) far.push({ step: step.step_id, on: from, at })
    }
    eachReference(spec.params, `${path}.params`, refers(undefined))
    if (isObject(spec.inverse)) eachReference(spec.inverse, `${path}.inverse`, refers(step.step_id))
    return [{ ...spec, binding_id: idOf(step.step_id), step_id: step.step_id }]
  })
  for (const { at, step, on } of unheld(steps, far))
    wrong(at, 'dependency', `refers to step ${on}, which step ${step} does not depend on`)
  if (problems.length > 0) throw new InvalidInput('flow', problems)
  return bound
}

/** What a resolver says. What it throws that is no error of ours would not tell about which step it was asked. */
function resolved(resolve: Resolver, step: Step, i: number): BindingSpec | undefined {
  try {
    return resolve(step)
  } catch (cause) {
    if (cause instanceof MplpError) throw cause
    const message = `has no binding: the resolver failed for step ${step.step_id} (${step.description}): ${messageOf(cause)}`
    throw new InvalidInput('flow', [{ path: `plan.steps[${i}]`, rule: 'binding', message }], { cause })
  }
}

/** What is wrong with what a resolver gave: a flow's own bindings were looked at with the flow. */
const resolvedProblems = (spec: BindingSpec, path: string): readonly Problem[] =>
  isPromised(spec) ? [{ ...PROMISED, path }] : problemsIn(plain(spec, path, 'flow'), BINDING, path)

/** Does a binding depend on who the roles of the project are? */
export const asksForRoles = (steps: readonly Step[], bindings: Bindings = {}): boolean =>
  bindings.roles !== undefined &&
  steps.some(({ step_id, agent_role }) => {
    const isBound = bindings.steps?.[step_id] ?? bindingOfRole(bindings, agent_role)
    return agent_role !== undefined && !isBound
  })

function bindingOfRole({ roles = {} }: Bindings, role = '', roleOf?: RoleFinder): BindingSpec | undefined {
  if (Object.hasOwn(roles, role)) return roles[role] // a role may be called constructor
  const known = roleOf?.(role)
  const name = [known?.role_id, known?.name].find((one) => one !== undefined && Object.hasOwn(roles, one))
  return name === undefined ? undefined : roles[name]
}

/** Who carries out what a binding asks for, unless it says so itself: whoever the layer has for it. */
export const executorOf = (
  { executor_kind, action_type }: Pick<Binding, 'action_type' | 'executor_kind'>,
  layer: Pick<ActionLayer, 'executorOf'>,
): ExecutorKind => executor_kind ?? layer.executorOf(action_type) ?? 'worker'
