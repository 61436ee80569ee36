import { setTimeout as pause } from 'node:timers/promises'
import { MplpError, RevisionConflict } from '../../src/protocol/errors.ts'
import type { Backend, Write } from '../../src/vsl/backend.ts'
import { collect } from '../contracts/backend/given.ts'

export interface Load {
  /** Whose commits these are; begins each id. */
  readonly name: string
  readonly streams: readonly string[]
  /** Commits on each stream. */
  readonly commits: number
}

export interface LoadResult {
  /** The id of every commit that was acknowledged, or found to be ours afterwards. */
  readonly landed: string[]
  /** How often a call failed, by the code of the error. */
  readonly failures: Record<string, number>
}

/** Every commit on a stream writes all of these, so that they always agree. */
export const PARTS = ['a', 'b', 'c']

/**
 * Commits on all the streams at once, beside whoever else does, as the graph would: after a failure the same write again, after a conflict a look
 * at the entry that was first.
 */
export async function commitAll(backend: Backend, { name, streams, commits }: Load): Promise<LoadResult> {
  const result: LoadResult = { landed: [], failures: {} }
  const persistently = async <T>(call: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await call()
      } catch (error) {
        if (!(error instanceof MplpError)) throw error
        result.failures[error.code] = (result.failures[error.code] ?? 0) + 1
        if (!error.retryable || error instanceof RevisionConflict) throw error
        await pause(5)
      }
    }
  }
  await Promise.all(
    streams.map(async (stream) => {
      let { revision } = await persistently(() => backend.head(stream))
      for (let n = 0; n < commits; n++) {
        const id = `${name}-${stream}-${n}`
        for (let landed = false; !landed; ) {
          const write = writeOf(stream, revision, id)
          try {
            await persistently(() => backend.commit(write))
            landed = true
            revision++
          } catch (error) {
            if (!(error instanceof RevisionConflict)) throw error
            const [first] = await persistently(() => collect(backend.read(stream, { after: revision }), 1))
            landed = (first?.body as { id: string } | undefined)?.id === id
            revision = landed ? revision + 1 : error.actual
          }
        }
        result.landed.push(id)
      }
    }),
  )
  return result
}

const writeOf = (stream: string, expected: number, id: string): Write => ({
  stream,
  expected,
  entry: { id },
  inserts: [[`once/${id}`, id]],
  puts: PARTS.map((part) => [`${stream}/${part}`, id] as const),
  deletes: [],
})
