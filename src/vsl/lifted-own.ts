import type { Json } from '../protocol/json.ts'
import type { Cells } from './lifted-cells.ts'
import type { Directory } from './lifted-directory.ts'
import { ownCell } from './lifted-layout.ts'

/** The caller's own keys, listed in a directory. One call at a time. */
export interface OwnKeys {
  get(key: string): Promise<Json | undefined>
  set(key: string, value: Json): Promise<void>
  delete(key: string): Promise<void>
}

export function ownKeys(cells: Cells, keys: Directory): OwnKeys {
  async function get(key: string): Promise<Json | undefined> {
    const value = await cells.get(ownCell(key))
    if (value !== undefined) return value
    return (await keys.has(key)) ? null : undefined // a bare store may answer a miss with null
  }
  return {
    get,
    set: async (key, value) => cells.set([[ownCell(key), value], ...(await keys.changed([key], []))]),
    async delete(key) {
      if ((await get(key)) !== undefined) await cells.set([[ownCell(key), null], ...(await keys.changed([], [key]))])
    },
  }
}
