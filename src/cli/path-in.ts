import { resolve } from 'node:path'
import { below } from '../protocol/below.ts'

/** A path as the graph knows it, from the folder it keeps and with slashes; what does not lie in there, as it was given. */
export function pathIn(root: string, cwd: string, given: string): string {
  return below(root, resolve(cwd, given)) ?? given
}
