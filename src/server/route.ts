import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Role } from '../config-check.ts'
import { InvalidInput } from '../protocol/errors.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { Schema } from '../protocol/schema.ts'
import { shown } from '../protocol/shown.ts'

/** One thing that can be asked for: the server answers by this table, and the OpenAPI document is written from it. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** `/psg/plans/:id` */
  readonly path: string
  readonly says: string
  /** Absent: anybody may ask. */
  readonly role?: Role
  readonly query?: { readonly [name: string]: string }
  readonly body?: Body
  /** 200 unless told. */
  readonly status?: number
  readonly answer?: Schema
  /** `application/json` unless told. */
  readonly type?: string
  readonly handle: (request: Request, reply: FastifyReply) => Promise<unknown>
}

/** One with `properties` has none but these, and may be left out if it needs none of them. */
export type Body = Schema & { readonly anyOf?: readonly Schema[] }

export type Request = FastifyRequest<{
  Params: { readonly id: string }
  Body: JsonObject
  Querystring: { readonly [name: string]: string | undefined }
}>

/** Commits made over HTTP say so. */
export const by = (reason: string) => ({ actor: 'http', reason })

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

type Given = { readonly [name: string]: unknown }
type Query = Request['query']

export function wordOf<T extends string>(fields: Given, path: string, words: readonly T[], subject = 'body'): T {
  const found = fields[path]
  if (words.includes(found as T)) return found as T
  throw new InvalidInput(subject, [
    { path, rule: 'enum', message: `must be one of ${words.join(', ')}`, found: shown(found) },
  ])
}

/** The same, where it may be left out. */
export const choiceOf = <T extends string>(
  fields: Given,
  path: string,
  words: readonly T[],
  subject?: string,
): T | undefined => (fields[path] === undefined ? undefined : wordOf(fields, path, words, subject))

/** How many of something a page may hold at most. */
export const limitOf = (query: Query, most: number): number => countOf(query, 'limit', most, 1)

/** A whole number of a query, within bounds. */
export function countOf(query: Query, path: string, most: number, least = 0): number {
  const text = query[path]
  if (text === undefined) return most
  const count = Number(text)
  if (/^\d+$/.test(text) && count >= least && count <= most) return count
  throw new InvalidInput('query', [
    { path, rule: 'range', message: `must be a whole number from ${least} to ${most}`, found: shown(text) },
  ])
}

/** Where a page begins: behind the id that a query names, if it names one. */
export function behind({ after }: Query): { readonly after?: string } {
  if (after === undefined) return {}
  if (after !== '') return { after }
  throw new InvalidInput('query', [{ path: 'after', rule: 'text', message: 'must be text that is not empty' }])
}

export const TEXT: Schema = { type: 'string', minLength: 1 }
