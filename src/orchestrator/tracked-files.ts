import { posix } from 'node:path'
import type { Action, Adapter, Call } from '../ael/adapter.ts'
import type { Tracker } from '../drift/tracker.ts'
import type { Wrote } from '../drift/writing.ts'
import { ActionError } from '../protocol/errors.ts'
import { type Digest, isObject, type JsonObject } from '../protocol/json.ts'
import type { Patiently } from './patiently.ts'

/**
 * Lets the graph know what a file adapter does: what a run has read, and what it wrote, by which action and in which run. Paths that the ignore rules
 * keep out are denied. The adapter itself asks `tracker.staleCheck` and, for where links lead, `tracker.mayWrite` before it writes. `patiently` waits
 * for a store that is away: what has been written is told once it is back.
 */
export function withTracking(adapter: Adapter, tracker: Tracker, patiently: Patiently = (ask) => ask()): Adapter {
  return {
    ...adapter,
    async execute(action, call) {
      const { operation, path, to } = action.params
      const paths = [path, to].filter((name) => typeof name === 'string').map((name) => posix.normalize(name))
      if (operation === 'read') return reading(adapter, tracker, action, call)
      for (const name of paths)
        if (!(await tracker.mayWrite(name)))
          throw new ActionError('action_denied', `${name} is kept out by the ignore rules`)
      const writing = await tracker.writing(paths)
      try {
        const outcome = await adapter.execute(action, call)
        const files = isObject(outcome.output) ? written(action.params, outcome.output) : []
        const by = { action_id: action.action_id, ...(call.run && { run: call.run }) }
        await call.untimed(patiently(() => writing.wrote(files, by), call.signal))
        return outcome
      } finally {
        writing.release()
      }
    },
  }
}

async function reading(adapter: Adapter, tracker: Tracker, action: Action, call: Call) {
  const outcome = await adapter.execute(action, call)
  const { path, digest } = isObject(outcome.output) ? outcome.output : {}
  if (typeof path === 'string' && typeof digest === 'string')
    await tracker.sawRead(path, digest as Digest, call.run ? { run: call.run } : {})
  return outcome
}

/** What lies where after an operation, by what it gave. */
function written({ operation }: JsonObject, output: JsonObject): readonly Wrote[] {
  const { path, to, digest, size, mode } = output
  const shape = {
    ...(typeof size === 'number' && { size }),
    ...(typeof mode === 'number' && { mode }),
  }
  switch (operation) {
    case 'write':
      return [{ path: String(path), digest: digest as Digest, ...shape }]
    case 'delete':
      return [{ path: String(path), digest: null }]
    case 'move':
      return [
        { path: String(path), digest: null },
        { path: String(to), digest: digest as Digest, ...shape },
      ]
    default:
      return []
  }
}
