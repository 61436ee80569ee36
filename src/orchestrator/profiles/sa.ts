import { saInvariants } from '../../protocol/invariant-rules.ts'
import { type Breach, checkInvariants } from '../../protocol/invariants.ts'
import type { JsonObject } from '../../protocol/json.ts'
import type { Context, Plan, SaEventType } from '../../protocol/types.ts'
import { VERSION } from '../../protocol/version.ts'
import { RunEvent } from '../../psg/run-event.ts'

/** One event of the single-agent profile, told of the run that its commit belongs to. */
export const saEvent = (event_type: SaEventType, payload: JsonObject): RunEvent =>
  new RunEvent({ sa: event_type, payload })

export function saBeginning(
  context: Pick<Context, 'title' | 'status'>,
  { title }: Pick<Plan, 'title'>,
  step_count: number,
): readonly RunEvent[] {
  return [
    saEvent('SAInitialized', {
      runtime_version: VERSION,
      capabilities: ['plan.execute', 'confirm', 'drift', 'rollback'],
    }),
    saEvent('SAContextLoaded', { context_title: context.title, context_status: context.status }),
    saEvent('SAPlanEvaluated', { plan_title: title, step_count }),
  ]
}

export function saEnd(facts: {
  status: string
  succeeded: number
  failed: number
  segments: number
}): readonly RunEvent[] {
  return [
    saEvent('SATraceEmitted', { segments_written: facts.segments }),
    saEvent('SACompleted', {
      status: facts.status,
      steps_executed: facts.succeeded + facts.failed,
      steps_succeeded: facts.succeeded,
      steps_failed: facts.failed,
    }),
  ]
}

/**
 * What of the profile's nine invariants does not hold for these: a context when it is loaded, with its plan when that is made, with the trace when
 * it is emitted. Stricter than the protocol's own harness: what an invariant speaks of must be there.
 */
export const saBreaches = (
  subjects: { context?: unknown; plan?: unknown; trace?: unknown },
  switched?: ReadonlySet<string>,
): readonly Breach[] => checkInvariants(saInvariants, subjects, { absent: 'breach', switched })
