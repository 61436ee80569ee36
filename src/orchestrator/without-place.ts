import { verdictOn } from './gate.ts'
import type { LiveRun, Waiting } from './live.ts'
import { needsPlace } from './place.ts'
import { nextTurns } from './session.ts'
import { room } from './timers.ts'
import { bindingOfTurn } from './turns.ts'

/** A step that would go on at once if its process had a place for an action of that type. */
export interface Placeless {
  readonly step_id: string
  readonly action_type: string
}

/** What of a run waits for a place, looked for when somebody asks: whoever waits keeps no list of it. */
export function withoutPlace(run: LiveRun): readonly Placeless[] {
  if (run.line === undefined || run.paused) return []
  const found = new Map<string, Placeless>()
  for (const { step_id, action_type } of candidates(run))
    if (run.line.awaits(action_type)) found.set(step_id, { step_id, action_type })
  return [...found.values()]
}

function* candidates(run: LiveRun): Iterable<Placeless> {
  for (const waiting of run.waiting.values()) {
    const { step, action } = waiting.flight
    if (mayGoOn(run, waiting)) yield { step_id: step, action_type: action.action_type }
  }
  const back = run.undo?.left[0]
  if (back) yield { step_id: back.step, action_type: back.action.action_type }
  if (run.ending) return
  for (const step of run.ready.asides()) yield run.bindings.get(step)!.data
  if (!run.session || room(run) <= 0) return
  for (const turn of nextTurns(run.session)) {
    const binding = bindingOfTurn(run, run.session, turn)
    if (binding && needsPlace(binding)) yield { step_id: turn.step_id, action_type: binding.action_type }
  }
}

/** Has come what it waited for? */
const mayGoOn = (run: LiveRun, waiting: Waiting): boolean =>
  waiting.on === 'timer'
    ? waiting.due <= run.graph.clock.now()
    : waiting.on === 'confirm' && verdictOn(run, waiting) === 'approved'
