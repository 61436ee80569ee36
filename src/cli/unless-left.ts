import type { Io } from './io.ts'

/** What a wait on `io.signal` comes to, or `undefined` when Ctrl-C has ended the waiting. */
export async function unlessLeft<T>(io: Io, waiting: Promise<T>): Promise<T | undefined> {
  try {
    return await waiting
  } catch (error) {
    if (!io.signal.aborted) throw error
    return undefined
  }
}

export const GOES_ON = 'left; `mplp resume` goes on with it'
