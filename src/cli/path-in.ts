import { isAbsolute, relative, resolve, sep } from 'node:path'

/** A path as the graph knows it, from the folder it keeps and with slashes; what does not lie in there, as it was given. */
export function pathIn(root: string, cwd: string, given: string): string {
  const path = relative(root, resolve(cwd, given))
  const isOutside = path === '' || path === '..' || path.startsWith(`..${sep}`) || isAbsolute(path)
  return isOutside ? given : path.replaceAll(sep, '/')
}
