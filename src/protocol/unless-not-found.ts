import { NotFound } from './errors.ts'

/** For who only asks whether something is there. */
export function unlessNotFound(error: unknown): undefined {
  if (!(error instanceof NotFound)) throw error
}
