import { InvalidInput } from '../protocol/errors.ts'
import { isObject } from '../protocol/json.ts'
import { finalFrom, orAborted, passingFailure, toActionError } from './failure.ts'
import { partsOf } from './header.ts'
import { headerProblems, type McpHeaders, type McpUrl, secretTexts } from './mcp-server.ts'

/** The headers for a request. Throws ActionError: one that may pass where whoever gives them fails, a final one for what cannot be sent. */
export type HeaderSource = (signal: AbortSignal) => Promise<McpHeaders>

/** Those of a server as its requests need them: as they are, or by asking each time. `onSecrets` is told what comes so, before it is sent anywhere. */
export function headerSource(
  headers: NonNullable<McpUrl['headers']>,
  host: string,
  onSecrets: (values: readonly string[]) => void,
): HeaderSource {
  if (typeof headers !== 'function') return async () => headers
  const asked = async (): Promise<McpHeaders> => {
    try {
      return await headers()
    } catch (cause) {
      throw passingFailure(`the headers for ${host} were not given: ${toActionError(cause).message}`, { cause })
    }
  }
  return async (signal) => {
    const found = await orAborted(asked(), signal, `the request to ${host}`)
    if (isObject(found)) onSecrets(Object.values(found).filter((value) => typeof value === 'string'))
    refuseUnfit(found, host)
    return found
  }
}

function refuseUnfit(headers: unknown, host: string): void {
  const problems = secretTexts.fits(headers)
    ? headerProblems(headers as McpHeaders)
    : [{ path: '', rule: 'type', message: `must be ${secretTexts.says}` }]
  if (problems.length > 0) throw finalFrom(new InvalidInput(`what was given as headers for ${host}`, problems))
}

/** Secrets of which some change: those that always are, and the latest of the others. */
export interface ChangingSecrets {
  /** The same list until one is added. */
  all(): readonly string[]
  add(values: readonly string[]): void
}

/** A token of an hour ago is worth nothing any more, and who signs each request would add to the list for ever. */
const KEPT = 50

export function changingSecrets(always: readonly string[]): ChangingSecrets {
  const latest = new Set<string>()
  let all = always
  return {
    all: () => all,
    add(values) {
      const isNew = values.some((value) => !latest.has(value))
      for (const value of values) {
        latest.delete(value) // what is still in use comes last, and stays
        latest.add(value)
      }
      if (!isNew) return
      for (const value of latest) if (latest.size > KEPT) latest.delete(value)
      all = [...always, ...[...latest].flatMap(partsOf)]
    },
  }
}
