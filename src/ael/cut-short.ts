import { type Context, createContext, Script } from 'node:vm'

/** What was begun took too long, and was ended in the midst of it. */
export class CutShort extends Error {
  constructor(ms: number) {
    super(`took longer than ${ms} ms`)
  }
}

/**
 * Does what somebody else may have made endless, such as a pattern that backtracks for years, and ends it when it takes too long. It costs a tenth of a
 * millisecond: a watch is set on another thread. What has been ended may have left anything half done.
 */
export function cutShort<T>(ms: number, work: () => T): T {
  place ??= { context: createContext({}), call: new Script('work()') }
  const { context, call } = place
  let done: { readonly value: T } | undefined
  context.work = () => {
    done = { value: work() }
  }
  try {
    call.runInContext(context, { timeout: ms, displayErrors: false })
    return done!.value
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === TIMED_OUT ? new CutShort(ms) : error
  } finally {
    context.work = undefined
  }
}
const TIMED_OUT = 'ERR_SCRIPT_EXECUTION_TIMEOUT'
let place: { readonly context: Context; readonly call: Script } | undefined
