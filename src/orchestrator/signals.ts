import { MAX_OUTPUT_BYTES } from '../ael/outputs.ts'
import { append } from '../protocol/append.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { perhaps } from '../protocol/fields.ts'
import { type Json, roughBytes } from '../protocol/json.ts'
import type { Binding, Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { ofKind } from '../psg/node.ts'
import type { PlanFacts } from '../psg/plan-facts.ts'
import type { LiveRun, RunOptions } from './live.ts'

/** What came from outside for a run and nobody has taken, by name, oldest first. */
export function openSignals({ graph, plan }: Pick<LiveRun, 'graph' | 'plan'>): Map<string, Node<'signal'>[]> {
  const open = new Map<string, Node<'signal'>[]>()
  for (const node of graph.state.plan(plan)?.signals.values() ?? []) append(open, node.data.name, node)
  return open
}

/** Throws InvalidInput for a signal that no step of the run was ever to take: it would lie there for ever, and who sent it wait for what it does. */
export function refuseUnlessTaken({ state }: ProjectGraph, run: Node<'run'>, name: string): void {
  const facts = state.plan(run.data.plan_id)
  if (facts && namesKnown.get(facts)?.has(name)) return
  const names = signalsTaken(state, run)
  if (facts) namesKnown.set(facts, names)
  if (names.has(name)) return
  const hint = perhaps(name, [...names]) || those([...names])
  const message = `is ${name}, a signal that no step of run ${run.id} waits for${hint}`
  throw new InvalidInput('signal', [{ path: 'name', rule: 'awaited', message, found: name }])
}

/** As JSON text, as large as the output of an action that a process carries out. The commit that takes it in has it as such, beside what else it tells. */
const MOST_BYTES = MAX_OUTPUT_BYTES

/** Throws InvalidInput for a payload that no commit could take in: it would lie there, and its run fail. */
export function refuseUnlessCarried(payload: Json): void {
  const rough = roughBytes(payload)
  const isFarBeyond = rough > 4 * MOST_BYTES // its text may be more than a text can be, and a byte is estimated at less than four
  const bytes = isFarBeyond ? rough : Buffer.byteLength(JSON.stringify(payload))
  if (bytes <= MOST_BYTES) return
  const message = `has ${bytes} bytes, more than ${MOST_BYTES}: keep it elsewhere, and give where it lies`
  throw new InvalidInput('signal', [{ path: 'payload', rule: 'length', message }])
}

const MOST_TOLD = 10

/** The names that there are, for who cannot see the plan. */
function those(names: readonly string[]): string {
  if (names.length === 0) return ''
  const told = [...names].sort().slice(0, MOST_TOLD).join(', ')
  const more = names.length > MOST_TOLD ? ` and ${names.length - MOST_TOLD} more` : ''
  return `; ${told}${more} ${names.length === 1 ? 'is' : 'are'} waited for`
}

/** So that the plan need not be gone through for each of many. */
const namesKnown = new WeakMap<PlanFacts, ReadonlySet<string>>()

function signalsTaken(state: ProjectGraph['state'], { data }: Node<'run'>): ReadonlySet<string> {
  const { brief, review } = (data.options as RunOptions).session ?? {}
  const names = new Set<string>()
  const note = (bound: Pick<Binding, 'action_type' | 'params'> | undefined) => {
    if (bound?.action_type === 'wait' && typeof bound.params.signal === 'string') names.add(bound.params.signal)
  }
  for (const binding of ofKind(state.nodesOf(data.plan_id), 'binding')) note(binding.data)
  note(brief)
  note(review)
  return names
}

/** Does something that is under way wait for a signal of this name? What begins to wait for it later finds it then. */
export function isAwaited({ state }: ProjectGraph, plan: string, name: string): boolean {
  for (const { data } of ofKind(state.nodesOf(plan), 'action')) {
    const { status, action_type, turn, step_id } = data
    if (status !== 'waiting' || action_type !== 'wait') continue
    if (turn && turn.purpose !== 'work') return true // its session says for what
    for (const bound of ofKind(state.referrers('step', step_id, 'BINDS'), 'binding'))
      if (bound.data.params.signal === name) return true
  }
  return false
}
