import { Corrupt, MplpError, Refused, Unavailable } from '../protocol/errors.ts'

/**
 * What a failed call to the file system means to the caller, who wrote nothing by it. Any other error is passed on. Rights that a store which `stood`
 * has lost may be given back to it.
 */
export function fileError(path: string, error: unknown, stood = false): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (error instanceof MplpError || code === undefined) return error
  const options = { cause: error }
  if (stood && ['EACCES', 'EPERM', 'EROFS'].includes(code))
    return new Unavailable(
      path,
      'it may no longer be read and written by this process; see to its rights, and that it is mounted for writing',
      options,
    )
  switch (code) {
    case 'EACCES':
    case 'EPERM':
      return new Refused(
        `${path} may not be read and written by this process`,
        'give it the right to, or name another folder',
        options,
      )
    case 'ERR_ACCESS_DENIED':
      return new Refused(
        `${path} cannot be kept under Node's --permission`,
        'give --allow-fs-read and --allow-fs-write for it; where Node forbids fsync nevertheless, take another store',
        options,
      )
    case 'EROFS':
      return new Refused(
        `${path} is on a read-only file system`,
        'mount that for writing, or name another folder',
        options,
      )
    case 'ENOTDIR':
    case 'EEXIST':
      return new Refused(`${path} is not a folder`, 'name a folder, or one that does not exist yet', options)
    case 'ENOSPC':
    case 'EDQUOT':
    case 'EFBIG':
      return new Unavailable(path, 'there is no room for more, free some', options)
    case 'EMFILE':
    case 'ENFILE':
      return new Unavailable(path, 'too many files are open, raise the limit', options)
    default:
      return new Unavailable(path, `the file system says ${code}`, options)
  }
}

export const damaged = (what: string): Corrupt =>
  new Corrupt(what, 'restore the folder from a backup or from git, then open it again')
