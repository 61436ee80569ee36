import type { Io } from './io.ts'

/** What a wait on `io.signal` comes to, or `undefined` when Ctrl-C has ended the waiting; then `says` is what becomes of the rest. */
export async function unlessLeft<T>(io: Io, waiting: Promise<T>, says: string): Promise<T | undefined> {
  try {
    return await waiting
  } catch (error) {
    if (!io.signal.aborted) throw error
    io.warn(says)
    return undefined
  }
}

export const GOES_ON = 'left; `mplp resume` goes on with it'
