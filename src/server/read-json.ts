import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { InvalidInput } from '../protocol/errors.ts'

/**
 * Reads bodies as Fastify does, but refuses those whose text it would change in silence, and says of those that are packed that they are. One of no
 * bytes is none: clients name the kind of a body also where they send none.
 */
export function readJson(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (request, bytes, done) => {
    const wrong = packed(request) ?? (isUtf8(bytes) ? undefined : NOT_UTF8())
    if (wrong) done(wrong)
    else if (bytes.length === 0) done(null, undefined)
    else parse(request, bytes.toString(), (error, body) => done(error && isJson(bytes) ? OF_PROTOTYPES() : error, body))
  })
}

function packed({ headers }: FastifyRequest): Error | undefined {
  const coding = headers['content-encoding']?.toLowerCase() ?? 'identity'
  if (coding === 'identity') return undefined
  const message = `bodies in ${coding.slice(0, 80)} are not read: send it as it is`
  return Object.assign(new Error(message), { statusCode: 415 })
}

/** Fastify says that it was none, of what it refuses for its names as well. */
function isJson(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString())
    return true
  } catch {
    return false // as it was told
  }
}

const OF_PROTOTYPES = (): InvalidInput =>
  new InvalidInput('body', [
    {
      path: '',
      rule: 'prototype',
      message: 'has a member called __proto__, or constructor with a prototype: rename it',
    },
  ])
const NOT_UTF8 = (): InvalidInput => new InvalidInput('body', [{ path: '', rule: 'utf8', message: 'is not UTF-8' }])
