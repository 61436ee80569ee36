import { OutcomeUnknown, Unavailable } from '../protocol/errors.ts'

/** Only `commit`, `set` and `delete` may leave a caller in doubt; of anything else it does no harm to do it again. */
export async function certainly(work: Promise<void>): Promise<void> {
  try {
    await work
  } catch (error) {
    if (!(error instanceof OutcomeUnknown)) throw error
    throw new Unavailable('the store', 'it failed halfway, try again', { cause: error })
  }
}
