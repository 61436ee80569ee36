import { amount, type Field, flag, object, oneOf, text, texts, time, wholeFrom } from '../protocol/fields.ts'
import { isObject, type JsonObject } from '../protocol/json.ts'
import type { Kind } from './change.ts'

/** What is wrong with a node of our own kinds, for which the protocol has no schema. Members it does not know of are let through. */
export function shapeProblems(kind: Kind, data: JsonObject): readonly { path: string; message: string }[] {
  const shape = SHAPES[kind]
  const problems: { path: string; message: string }[] = []
  for (const path in shape) {
    const { says, fits } = shape[path]!
    if (!fits(data[path])) problems.push({ path, message: `must be ${says}` })
  }
  return problems
}

const count = wholeFrom(0)
const there: Field = { says: 'there', fits: (value) => value !== undefined }
const END = oneOf('completed', 'failed', 'cancelled', 'skipped')
const isList = (value: unknown): value is readonly JsonObject[] => Array.isArray(value) && value.every(isObject)
const maybe = ({ says, fits }: Field): Field => ({ says, fits: (value) => value === undefined || fits(value) })
const inverse: Field = {
  says: 'an action or irreversible',
  fits: (value) => isObject(value) || value === 'irreversible',
}
const approval: Field = {
  says: 'none, ask, or who is to be asked',
  fits: (value) => value === 'none' || value === 'ask' || isObject(value),
}
const began: Field = {
  says: 'a list of segment_id, at and started_at',
  fits: (value) =>
    isList(value) &&
    value.every(({ segment_id, at, started_at }) => text.fits(segment_id) && count.fits(at) && time.fits(started_at)),
}
const ended: Field = {
  says: 'a list of status, at and finished_at',
  fits: (value) =>
    isList(value) &&
    value.every(({ status, at, finished_at }) => END.fits(status) && count.fits(at) && time.fits(finished_at)),
}
const acted: Field = {
  says: 'a list of actions, each with what takes it back and at',
  fits: (value) =>
    isList(value) &&
    value.every(
      ({ action_id, idempotency_key, execution_id, inverse: back, at }) =>
        [action_id, idempotency_key, execution_id].every(text.fits) && inverse.fits(back) && count.fits(at),
    ),
}
const target: Field = {
  says: 'a kind (plan, action, other) and an id',
  fits: (value) => isObject(value) && ['plan', 'action', 'other'].includes(value.kind as string) && text.fits(value.id),
}
const carried: Field = {
  says: 'a run_id and an action_id',
  fits: (value) => isObject(value) && text.fits(value.run_id) && text.fits(value.action_id),
}
const parent: Field = {
  says: 'a run_id, a step_id and an action_id',
  fits: (value) => isObject(value) && [value.run_id, value.step_id, value.action_id].every(text.fits),
}

const SHAPES: { readonly [K in Kind]?: { readonly [field: string]: Field } } = {
  segment_end: {
    segment_id: text,
    status: END,
    finished_at: time,
    attributes: maybe(object),
  },
  binding: {
    binding_id: text,
    step_id: text,
    action_type: text,
    executor_kind: maybe(oneOf('agent', 'tool', 'llm', 'worker', 'external')),
    params: object,
    timeout_ms: maybe(amount),
    retry: maybe(object),
    on_failure: maybe(oneOf('fail', 'skip', 'continue', 'compensate')),
    on_interrupt: maybe(oneOf('retry', 'hold')),
    approval: maybe(approval),
    inverse: maybe(inverse),
  },
  action: {
    action_id: text,
    step_id: text,
    idempotency_key: text,
    status: oneOf('running', 'waiting', 'completed', 'failed', 'cancelled'),
    attempts: count,
    failures: count,
    execution_id: text,
    action_type: maybe(text),
    began: maybe(began),
    ended: maybe(ended),
    inverse: maybe(inverse),
    no_inverse: maybe(text),
    acted: maybe(acted),
    carried_from: maybe(carried),
    left_waiting: maybe(text),
  },
  gate: {
    gate_id: text,
    confirm_id: text,
    target,
    digest: text,
    needed: wholeFrom(1),
    roles: maybe(texts),
    expires_at: maybe(time),
    used_by: maybe(text),
    shows: maybe(object),
  },
  run: {
    run_id: text,
    plan_id: text,
    trace_id: text,
    rerun_of: maybe(text),
    phase: oneOf('waiting', 'running', 'paused', 'undoing', 'ended'),
    started_at: maybe(time),
    ended_at: maybe(time),
    options: object,
    spent: object,
    lines: maybe(texts),
    requested: maybe(oneOf('cancel', 'pause', 'resume')),
    pausing: maybe(flag),
    ending: maybe(object),
    result: maybe(object),
    parent: maybe(parent),
  },
  timer: {
    timer_id: text,
    due: time,
    purpose: oneOf('retry', 'deadline', 'expiry', 'wait', 'timeout'),
    target: text,
    wait_ms: maybe(amount),
    fired: maybe(flag),
  },
  file: {
    path: text,
    type: oneOf('file', 'link'),
    digest: text,
    size: count,
    mode: count,
    mtime: time,
    kept: flag,
    written_by: maybe(text),
    agreed: maybe(object),
  },
  finding: { finding_id: text, what: text, path: text, severity: text, found_at: time, digest: text },
  snapshot: { snapshot_id: text, name: text, revision: count, taken_at: time, plan_id: maybe(text) },
  signal: { signal_id: text, name: text, payload: there, taken: maybe(flag) },
  child: { child_id: text, action_id: text, run_id: text },
}
