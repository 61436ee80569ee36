import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ROLES } from '../config-check.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { isObject, type JsonObject } from '../protocol/json.ts'
import type { Schema } from '../protocol/schema.ts'
import { shown } from '../protocol/shown.ts'

export type Role = (typeof ROLES)[number]

/** One thing that can be asked for: the server answers by this table, and the OpenAPI document is written from it. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** `/psg/plans/:id` */
  readonly path: string
  readonly says: string
  /** Absent: anybody may ask. */
  readonly role?: Role
  readonly query?: { readonly [name: string]: string }
  readonly body?: Schema
  /** 200 unless told. */
  readonly status?: number
  readonly answer?: Schema
  /** `application/json` unless told. */
  readonly type?: string
  readonly handle: (request: Request, reply: FastifyReply) => Promise<unknown>
}

export type Request = FastifyRequest<{
  Params: { readonly id: string }
  Querystring: { readonly [name: string]: string | undefined }
}>

/** Commits made over HTTP say so. */
export const by = (reason: string) => ({ actor: 'http', reason })

/** The fields of a body that must be an object with none but these. */
export function fieldsOf(body: unknown, known: readonly string[]): JsonObject {
  if (!isObject(body))
    throw new InvalidInput('body', [{ path: '', rule: 'type', message: 'must be an object', found: shown(body) }])
  const extra = Object.keys(body).filter((key) => !known.includes(key))
  if (extra.length > 0)
    throw new InvalidInput(
      'body',
      extra.map((path) => ({ path, rule: 'extra_forbidden', message: `is not known; known are ${known.join(', ')}` })),
    )
  return body as JsonObject
}

export function textOf(fields: JsonObject, path: string): string {
  const found = fields[path]
  if (typeof found === 'string' && found !== '') return found
  throw new InvalidInput('body', [
    { path, rule: 'text', message: 'must be text that is not empty', found: shown(found) },
  ])
}

/** False when absent. */
export function flagOf(fields: JsonObject, path: string): boolean {
  const found = fields[path]
  if (found === undefined || typeof found === 'boolean') return found === true
  throw new InvalidInput('body', [{ path, rule: 'type', message: 'must be true or false', found: shown(found) }])
}

export function choiceOf<T extends string>(
  fields: { readonly [name: string]: unknown },
  path: string,
  words: readonly T[],
  subject = 'body',
): T | undefined {
  const found = fields[path]
  if (found === undefined || words.includes(found as T)) return found as T | undefined
  throw new InvalidInput(subject, [
    { path, rule: 'enum', message: `must be one of ${words.join(', ')}`, found: shown(found) },
  ])
}

/** A whole number of a query, within bounds. */
export function countOf(query: { readonly [name: string]: string | undefined }, path: string, most: number): number {
  const text = query[path]
  if (text === undefined) return most
  const count = Number(text)
  if (/^\d+$/.test(text) && count >= 0 && count <= most) return count
  throw new InvalidInput('query', [
    { path, rule: 'range', message: `must be a whole number from 0 to ${most}`, found: shown(text) },
  ])
}

export const TEXT: Schema = { type: 'string', minLength: 1 }
