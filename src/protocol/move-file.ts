import { linkSync, lstatSync, renameSync, unlinkSync } from 'node:fs'

/**
 * Gives a file another name. Throws EEXIST where there is something already: a rename would replace what somebody put there a moment ago, and linking
 * does not. Where a file cannot have two names it is renamed all the same, once nothing is there.
 */
export function moveFile(from: string, to: string): void {
  try {
    linkSync(from, to)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (!NO_SECOND_NAME.includes(code) || lstatSync(to, { throwIfNoEntry: false })) throw error
    renameSync(from, to)
    return
  }
  unlinkSync(from)
}

/** The file system has no such thing, as FAT, or the system forbids it of a file that is somebody else's. */
const NO_SECOND_NAME = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']
