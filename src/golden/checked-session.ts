import { InvalidInput } from '../protocol/errors.ts'
import { anything, type Field, list, object, objects, oneOf, texts } from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'
import type { Session } from './driver.ts'

/**
 * A driver's session whose answers are held to what they must be: one that is nothing at all would be taken for a refusal, or for all being well.
 * Throws InvalidInput for a session that lacks what every runtime has, and with the first answer that is none.
 */
export function checkedSession(session: unknown): Session {
  const methods = Object(session) as { readonly [name: string]: unknown }
  const missing = ALWAYS.filter((name) => typeof methods[name] !== 'function')
  if (missing.length > 0) throw invalid('session of the driver', `has no ${missing.join(', ')}`)
  const checked = Object.entries(ANSWERS).flatMap(([name, field]) => {
    const method = methods[name]
    return typeof method === 'function' ? [[name, answering(name, field, method.bind(session))]] : []
  })
  return Object.fromEntries(checked)
}

const answering =
  (name: string, { says, fits }: Field, method: (...given: readonly unknown[]) => unknown) =>
  async (...given: readonly unknown[]): Promise<unknown> => {
    const answer = await method(...given)
    if (!fits(answer)) throw invalid(`answer of the driver's ${name}`, `must be ${says}, not ${shown(answer)}`)
    return answer
  }

const invalid = (what: string, message: string): InvalidInput =>
  new InvalidInput(what, [{ path: '', rule: 'driver', message }])

const outcome: Field = {
  says: '{ ok: true }, or { ok: false } with the rules as a list of texts and a message',
  fits: (value) =>
    isObject(value) &&
    (value.ok === true || (value.ok === false && texts.fits(value.rules) && typeof value.message === 'string')),
}

const ALWAYS = ['load', 'change', 'documents', 'events', 'verify'] // the verdict stands without a `close`
const ANSWERS: { readonly [M in keyof Required<Session>]: Field } = {
  load: outcome,
  change: outcome,
  documents: list,
  events: objects,
  verify: texts,
  close: anything,
  submit: outcome,
  settle: oneOf('ended', 'waiting'),
  underway: anything,
  cancel: outcome,
  signal: outcome,
  decide: outcome,
  propose: outcome,
  crash: anything,
  freeze: anything,
  thaw: anything,
  rollback: outcome,
  snapshot: outcome,
  restore: outcome,
  breaches: texts,
  disk: anything,
  files: object,
  want: outcome,
  scan: objects,
  reconcile: outcome,
}
