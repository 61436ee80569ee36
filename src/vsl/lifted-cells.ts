import type { Clock } from '../protocol/clock.ts'
import { OutcomeUnknown, Unavailable } from '../protocol/errors.ts'
import { isObject, type Json } from '../protocol/json.ts'
import { messageOf } from '../protocol/thrown.ts'

/** The least a store can be. What it gives may come at once or later; a miss may be `undefined`, `null` or an error that says so. */
export interface BareStore {
  get(key: string): unknown
  set(key: string, value: Json): unknown
}

export type Sets = readonly (readonly [cell: string, value: Json])[]

/** The cells of a bare store, several of which can change at once. One call at a time. */
export interface Cells {
  /** A copy of what is there; `undefined` for `null` too, which stands for what was taken away. */
  get(cell: string): Promise<Json | undefined>
  /** All of it or nothing, whenever the process may die. Throws Unavailable if nothing was written, OutcomeUnknown if that is not known. */
  set(sets: Sets): Promise<void>
}

/** There only while cells are being changed: what they shall be. Who finds it finishes the work. */
const REDO = 'mplp/redo'

export function cellsOf(bare: BareStore, clock: Clock, isRemembered: (cell: string) => boolean): Cells {
  /** Cells that are read with every change. */
  const remembered = new Map<string, Json | undefined>()
  /** A change may be half done, or we do not know whether it was begun. At first we know nothing. */
  let doubt = true

  const read = async (cell: string): Promise<Json | undefined> => {
    try {
      const value = await bare.get(cell)
      return value === undefined || value === null ? undefined : JSON.parse(JSON.stringify(value))
    } catch (error) {
      if (saysMissing(error)) return undefined
      throw away('read', error)
    }
  }
  const write = async (cell: string, value: Json) => {
    remembered.delete(cell)
    await bare.set(cell, JSON.parse(JSON.stringify(value)))
    if (isRemembered(cell)) remembered.set(cell, value)
  }
  const finish = async (sets: Sets) => {
    for (const [cell, value] of sets) await write(cell, value)
    await write(REDO, null)
  }
  /** Finishes what was begun. */
  async function recover(): Promise<void> {
    if (!doubt) return
    remembered.clear()
    const redo = await read(REDO)
    if (isObject(redo))
      await finish(redo.sets as Sets).catch((error) => {
        throw away('changed', error)
      })
    doubt = false
  }
  /** After a failed call: is this change on its way? */
  async function isBegun(id: string): Promise<boolean> {
    const redo = await read(REDO)
    return isObject(redo) && redo.id === id
  }

  /** One cell changes whole by itself. */
  async function setOne(cell: string, value: Json): Promise<void> {
    try {
      await write(cell, value)
    } catch (error) {
      throw new OutcomeUnknown('the store', { cause: error })
    }
  }

  return {
    async get(cell) {
      await recover()
      if (!isRemembered(cell)) return read(cell)
      if (!remembered.has(cell)) remembered.set(cell, await read(cell))
      return remembered.get(cell)
    },
    async set(sets) {
      await recover()
      if (sets.length === 0) return
      if (sets.length === 1) return setOne(...sets[0]!)
      const id = clock.uuid()
      doubt = true
      try {
        await write(REDO, { id, sets } as unknown as Json)
      } catch (error) {
        const begun = await isBegun(id).catch(() => {
          throw new OutcomeUnknown('the store', { cause: error })
        })
        if (begun) throw new OutcomeUnknown('the store', { cause: error }) // whoever asks next finishes it
        doubt = false
        throw away('changed', error)
      }
      await finish(sets).catch((error) => {
        throw new OutcomeUnknown('the store', { cause: error })
      })
      doubt = false
    },
  }
}

/** Stores that throw for a miss instead of giving nothing. */
const saysMissing = (error: unknown): boolean =>
  isObject(error) && (error.code === 'ENOENT' || error.code === 'LEVEL_NOT_FOUND' || error.notFound === true)

const away = (what: string, error: unknown) =>
  new Unavailable('the store', `it could not be ${what}: ${messageOf(error)}`, {
    cause: error,
  })
