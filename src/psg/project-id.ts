import { systemClock } from '../protocol/clock.ts'
import { KeyExists, OutcomeUnknown, Refused, RevisionConflict } from '../protocol/errors.ts'
import { isObject, type Json } from '../protocol/json.ts'
import { type Backend, UNFINISHED } from '../vsl/backend.ts'
import type { ProjectOptions } from './project.ts'

const NAME = 'project'
const MOST_ATTEMPTS = 5

/** Minted once per store; of two processes that mint at once, one wins and both read the same. */
export async function projectId(store: Backend, { clock = systemClock }: ProjectOptions): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    const there = await projectIn(store)
    if (there !== undefined) return there
    const project_id = clock.uuid()
    try {
      await store.commit({ stream: NAME, expected: 0, inserts: [[NAME, { project_id }]], puts: [], deletes: [] })
      return project_id
    } catch (error) {
      const read = error instanceof KeyExists || error instanceof RevisionConflict || error instanceof OutcomeUnknown
      if (!read || attempt === MOST_ATTEMPTS) throw error
    }
  }
}

/** The id of a store's project, if it has one. Throws Refused for a copy that was cut off. */
export async function projectIn(store: Backend): Promise<string | undefined> {
  const found = await store.getMany([NAME, UNFINISHED])
  if (found.has(UNFINISHED)) throw new Refused('the store is a copy that was cut off', 'throw it away, and copy again')
  const there = found.get(NAME)
  return there === undefined ? undefined : idIn(there)
}

function idIn(stored: Json): string {
  const project_id = isObject(stored) ? stored.project_id : undefined
  if (typeof project_id === 'string') return project_id
  throw new Refused(
    'the store does not tell the id of its project',
    'open it with its keys if it is encrypted, or bring it back from a backup',
  )
}
