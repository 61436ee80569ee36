import { basename, dirname, join } from 'node:path'
import { below } from '../protocol/below.ts'
import { disk, type Root } from './root.ts'

/** Where a path leads when the links on its way are followed, from the root on; `undefined` when that is the root itself or outside. */
export async function throughLinks(root: Root, path: string): Promise<string | undefined> {
  return below(root.path, await realOf(join(root.path, path)))
}

/** Of what is not there yet, or cannot be followed: where it would be, as far as its folders tell. */
async function realOf(path: string): Promise<string> {
  const real = await disk.realpath(path).catch(() => undefined) // its folder is asked
  if (real !== undefined || path === dirname(path)) return real ?? path
  return join(await realOf(dirname(path)), basename(path))
}
