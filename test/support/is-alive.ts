import { readFileSync } from 'node:fs'

/** A zombie waits for its parent to look; it does nothing any more. */
export function isAlive(pid: string | number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}
