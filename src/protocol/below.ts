import { isAbsolute, relative, sep } from 'node:path'

/** Where a path lies from a folder on, with slashes; `undefined` for the folder itself and for what is not in it. */
export function below(folder: string, path: string): string | undefined {
  const from = relative(folder, path)
  const isOutside = from === '' || from === '..' || from.startsWith(`..${sep}`) || isAbsolute(from)
  return isOutside ? undefined : from.replaceAll(sep, '/')
}
