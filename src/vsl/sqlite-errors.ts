import { Corrupt, MplpError, Refused, Unavailable } from '../protocol/errors.ts'

/** Somebody else writes just now. */
export const isBusy = (error: unknown): boolean => codeOf(error).startsWith('SQLITE_BUSY')

/** The disk failed, not the statement. */
export const isIoError = (error: unknown): boolean => codeOf(error).startsWith('SQLITE_IOERR')

/** The driver's error as one of ours, for errors that came before anything was written. Rights that a store which `stood` has lost may be given back to it. */
export function sqliteError(path: string, error: unknown, stood = false): unknown {
  if (error instanceof MplpError) return error
  const store = `the SQLite store ${path}`
  const code = codeOf(error)
  const cause = { cause: error }
  if (isBusy(error)) {
    const remedy = 'another process holds its write lock: end it, or wait for it and try again'
    return new Unavailable(store, remedy, cause)
  }
  if (code === 'SQLITE_FULL' || code === 'ENOSPC')
    return new Unavailable(store, 'its disk is full; free some space and try again', cause)
  if (isIoError(error) || code === 'SQLITE_PROTOCOL')
    return new Unavailable(
      store,
      'reading or writing its file failed; look at the disk, at quotas and at the limit of file sizes',
      cause,
    )
  if (code === 'SQLITE_NOTADB') {
    const remedy = 'give the path of another file, or bring this one back from a backup'
    return new Refused(`${path} is not an SQLite database, or its beginning is lost`, remedy, cause)
  }
  if (code.startsWith('SQLITE_CORRUPT'))
    return new Corrupt(store, 'stop every process that uses it and bring it back from a backup', cause)
  if (stood && /^(SQLITE_(READONLY|CANTOPEN|PERM)|EACCES$|EPERM$|EROFS$)/.test(code))
    return new Unavailable(
      store,
      'it may no longer be read and written by this process; see to its rights and those of its -wal and -shm, and that it is mounted for writing',
      cause,
    )
  if (code === 'EACCES' || code === 'EPERM') {
    const remedy = 'give it the right to, or give the path of another file'
    return new Refused(`${path} may not be read and written by this process`, remedy, cause)
  }
  if (code === 'ERR_ACCESS_DENIED') {
    const remedy = 'give --allow-fs-read and --allow-fs-write for its folder, or take another store'
    return new Refused(`${path} may not be made under Node's --permission`, remedy, { cause: error })
  }
  if (code === 'MODULE_NOT_FOUND' || code.startsWith('ERR_DLOPEN')) {
    const remedy =
      'install the packages on the system that runs them, with the optional ones; under --permission, give --allow-addons too; or take another store'
    return new Refused(`the driver of ${store}, libsql, cannot be loaded`, remedy, cause)
  }
  // A failed open has no code in this driver; a folder that cannot be made has one of the system's.
  if (code === '' || /^(SQLITE_(READONLY|CANTOPEN|PERM|AUTH)|E[A-Z]+$)/.test(code)) {
    const remedy = 'give a path to a file, in a folder that this process may write to'
    return new Refused(`${path} cannot be opened for writing`, remedy, cause)
  }
  return error
}

const codeOf = (error: unknown): string => {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (typeof code !== 'string') return 'unknown'
  const extended = /^UNKNOWN_SQLITE_ERROR_(\d+)$/.exec(code)?.[1] // the driver has no name for it, but its last byte is one
  return PRIMARY[Number(extended) & 0xff] ?? code
}

const PRIMARY: { readonly [number: number]: string } = {
  5: 'SQLITE_BUSY',
  8: 'SQLITE_READONLY',
  10: 'SQLITE_IOERR',
  11: 'SQLITE_CORRUPT',
  13: 'SQLITE_FULL',
  14: 'SQLITE_CANTOPEN',
}
