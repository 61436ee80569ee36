import { eitherOf } from '../protocol/on-abort.ts'
import type { Adapter } from './adapter.ts'
import { decorated } from './decorate.ts'
import type { Places } from './layer.ts'

/**
 * Waits for its place before an attempt is made, unless its caller has taken it; its time runs from then on. What an action carries out on its way has
 * the place of that action.
 */
export function withPlace(adapter: Adapter, places: Places): Adapter {
  return decorated(adapter, async (action, call) => {
    // What is carried out on the way could wait for the very place that it holds up.
    if (call.depth > 0 || places.has(call.execution_id)) return adapter.execute(action, call)
    const { signal, unlink } = eitherOf(call.signal, call.shutdown)
    try {
      await places.enter(action.action_type, call, signal)
      return await adapter.execute(action, call)
    } finally {
      unlink()
      places.leave(call)
    }
  })
}
