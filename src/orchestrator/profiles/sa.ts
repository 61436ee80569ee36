import { saInvariants } from '../../protocol/invariant-rules.ts'
import { type Breach, checkInvariants } from '../../protocol/invariants.ts'
import type { JsonObject } from '../../protocol/json.ts'
import type { SaEventType } from '../../protocol/types.ts'
import type { EventDraft } from '../../psg/change.ts'

/** The run that SA events are told of; the run's id is the agent's. */
export interface SaSubject {
  readonly run: string
  readonly context: string
  readonly plan: string
  readonly trace: string
}

/** One event of the single-agent profile. */
export function saDraft(
  { run, context, plan, trace }: SaSubject,
  event_type: SaEventType,
  payload: JsonObject,
): EventDraft {
  return {
    plan_id: plan,
    event: { event_type, sa_id: run, context_id: context, plan_id: plan, trace_id: trace, payload },
  }
}

export function saBeginning(
  subject: SaSubject,
  facts: { title: string; status: string; planTitle: string; steps: number; version: string },
): readonly EventDraft[] {
  return [
    saDraft(subject, 'SAInitialized', {
      runtime_version: facts.version,
      capabilities: ['plan.execute', 'confirm', 'drift', 'rollback'],
    }),
    saDraft(subject, 'SAContextLoaded', { context_title: facts.title, context_status: facts.status }),
    saDraft(subject, 'SAPlanEvaluated', { plan_title: facts.planTitle, step_count: facts.steps }),
  ]
}

export function saEnd(
  subject: SaSubject,
  facts: { status: string; succeeded: number; failed: number; segments: number },
): readonly EventDraft[] {
  return [
    saDraft(subject, 'SATraceEmitted', { segments_written: facts.segments }),
    saDraft(subject, 'SACompleted', {
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
