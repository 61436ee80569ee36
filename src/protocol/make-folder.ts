import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { Refused } from './errors.ts'
import { isMissing } from './missing-file.ts'

/**
 * Makes a folder and those on the way to it; the outermost that was not there, if any. Throws what the file system says. Node's own way says ENOENT for
 * a file system that is read-only, and never comes back from one that takes no folders, such as /proc.
 */
export function makeFolder(path: string): string | undefined {
  try {
    mkdirSync(path)
    return path
  } catch (error) {
    if (isFolder(path)) return undefined
    if (!isMissing(error)) throw error
  }
  const above = dirname(path)
  const first = makeFolder(above)
  try {
    mkdirSync(path)
  } catch (error) {
    if (isFolder(path)) return first // somebody else has made it meanwhile
    throw isMissing(error) && isFolder(above) ? takesNone(above, error) : error
  }
  return first ?? path
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false // whatever it is, the error that led here tells more
  }
}

const takesNone = (path: string, cause: unknown): Refused =>
  new Refused(`no folder can be made in ${path}`, 'name one on a file system that takes new folders', { cause })
