import { basename, dirname, isAbsolute, join, relative, sep } from 'node:path'
import { disk, type Root } from './root.ts'

/** Where a path leads when the links on its way are followed, from the root on; `undefined` when that is outside. */
export async function throughLinks(root: Root, path: string): Promise<string | undefined> {
  const place = relative(root.path, await realOf(join(root.path, path)))
  const isOutside = place === '..' || place.startsWith(`..${sep}`) || isAbsolute(place)
  return isOutside ? undefined : place.replaceAll(sep, '/')
}

/** Of what is not there yet, or cannot be followed: where it would be, as far as its folders tell. */
async function realOf(path: string): Promise<string> {
  const real = await disk.realpath(path).catch(() => undefined) // its folder is asked
  if (real !== undefined || path === dirname(path)) return real ?? path
  return join(await realOf(dirname(path)), basename(path))
}
