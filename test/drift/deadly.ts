import type { Backend } from '../../src/vsl/backend.ts'

/** When a process dies: as soon as a change of the disk is on record, before the content of so many files is had, or before its end is on record. */
export type Death = 'begin' | `${number}` | 'end'

/** A store on which the process dies while it changes the disk, once it is armed. */
export function deadly(store: Backend, when: Death): { readonly backend: Backend; readonly arm: () => void } {
  let [isArmed, isBegun, left] = [false, false, Number(when)]
  const die = () => process.kill(process.pid, 'SIGKILL')
  const backend: Backend = {
    ...store,
    async commit(write) {
      const isDeed = isArmed && JSON.stringify(write.entry ?? null).includes('"deed"')
      if (isDeed && isBegun && when === 'end') die()
      await store.commit(write)
      isBegun ||= isDeed
      if (isDeed && when === 'begin') die()
    },
    async getBlob(digest) {
      if (isBegun && --left === 0) die()
      return store.getBlob(digest)
    },
  }
  return {
    backend,
    arm: () => {
      isArmed = true
    },
  }
}
