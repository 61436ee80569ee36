import { isObject, type JsonObject } from '../protocol/json.ts'
import type { Kind } from './change.ts'

/** What is wrong with a node of our own kinds, for which the protocol has no schema. Members it does not know of are let through. */
export function shapeProblems(kind: Kind, data: JsonObject): readonly { path: string; message: string }[] {
  const shape = SHAPES[kind]
  const problems: { path: string; message: string }[] = []
  for (const path in shape) {
    const { what, fits } = shape[path]!
    if (!fits(data[path])) problems.push({ path, message: what })
  }
  return problems
}

interface Member {
  readonly what: string
  readonly fits: (value: unknown) => boolean
}

const text: Member = { what: 'must be text', fits: (value) => typeof value === 'string' && value !== '' }
const count: Member = {
  what: 'must be a whole number of 0 or more',
  fits: (value) => Number.isSafeInteger(value) && Number(value) >= 0,
}
const some: Member = { what: 'must be a whole number above 0', fits: (value) => count.fits(value) && value !== 0 }
const amount: Member = {
  what: 'must be a number of 0 or more',
  fits: (value) => typeof value === 'number' && value >= 0,
}
const flag: Member = { what: 'must be true or false', fits: (value) => typeof value === 'boolean' }
const object: Member = { what: 'must be an object', fits: isObject }
const texts: Member = {
  what: 'must be a list of texts',
  fits: (value) => Array.isArray(value) && value.every(text.fits),
}
const time: Member = {
  what: 'must be a date and time',
  fits: (value) => typeof value === 'string' && TIME.test(value) && !Number.isNaN(Date.parse(value)),
}
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/
const any: Member = { what: 'must be there', fits: (value) => value !== undefined }
const one = (...values: readonly string[]): Member => ({
  what: `must be one of ${values.join(', ')}`,
  fits: (value) => values.includes(value as string),
})
const END = one('completed', 'failed', 'cancelled', 'skipped')
const isList = (value: unknown): value is readonly JsonObject[] => Array.isArray(value) && value.every(isObject)
const maybe = ({ what, fits }: Member): Member => ({ what, fits: (value) => value === undefined || fits(value) })
const inverse: Member = {
  what: 'must be an action or irreversible',
  fits: (value) => isObject(value) || value === 'irreversible',
}
const began: Member = {
  what: 'must be a list of segment_id, at and started_at',
  fits: (value) =>
    isList(value) &&
    value.every(({ segment_id, at, started_at }) => text.fits(segment_id) && count.fits(at) && time.fits(started_at)),
}
const ended: Member = {
  what: 'must be a list of status, at and finished_at',
  fits: (value) =>
    isList(value) &&
    value.every(({ status, at, finished_at }) => END.fits(status) && count.fits(at) && time.fits(finished_at)),
}
const target: Member = {
  what: 'must be a kind (plan, action, other) and an id',
  fits: (value) => isObject(value) && ['plan', 'action', 'other'].includes(value.kind as string) && text.fits(value.id),
}

const SHAPES: { readonly [K in Kind]?: { readonly [field: string]: Member } } = {
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
    executor_kind: maybe(one('agent', 'tool', 'llm', 'worker', 'external')),
    params: object,
    timeout_ms: maybe(amount),
    retry: maybe(object),
    on_failure: maybe(one('fail', 'skip', 'continue', 'compensate')),
    on_interrupt: maybe(one('retry', 'hold')),
    approval: maybe(one('none', 'ask')),
    inverse: maybe(inverse),
  },
  action: {
    action_id: text,
    step_id: text,
    idempotency_key: text,
    status: one('running', 'waiting', 'completed', 'failed', 'cancelled'),
    attempts: count,
    failures: count,
    execution_id: text,
    action_type: maybe(text),
    began: maybe(began),
    ended: maybe(ended),
    inverse: maybe(inverse),
  },
  gate: {
    gate_id: text,
    confirm_id: text,
    target,
    digest: text,
    needed: some,
    roles: maybe(texts),
    expires_at: maybe(time),
    used_by: maybe(text),
    shows: maybe(object),
  },
  run: {
    run_id: text,
    plan_id: text,
    trace_id: text,
    phase: one('waiting', 'running', 'paused', 'undoing', 'ended'),
    started_at: maybe(time),
    ended_at: maybe(time),
    options: object,
    spent: object,
    requested: maybe(one('cancel', 'pause', 'resume')),
    result: maybe(object),
  },
  timer: {
    timer_id: text,
    due: time,
    purpose: one('retry', 'deadline', 'expiry', 'wait'),
    target: text,
    fired: maybe(flag),
  },
  file: {
    path: text,
    type: one('file', 'link'),
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
  signal: { signal_id: text, name: text, payload: any, target: maybe(text), taken: maybe(flag) },
}
