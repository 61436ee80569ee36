import type { JsonObject } from '../protocol/json.ts'
import type { Adapter } from './adapter.ts'
import { isPromised } from './promised.ts'

/** Does it change nothing in the world? Only what is said at once, and so, counts: to take anything else for it would be to repeat what must not be. */
export function isReadOnly(adapter: Pick<Adapter, 'readOnly'>, params: JsonObject): boolean {
  const said = adapter.readOnly?.(params)
  return !isPromised(said) && said === true
}
