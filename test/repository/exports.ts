import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT, type SourceFile } from './imports.ts'

const ROOMS = ['protocol', 'vsl', 'psg', 'bus', 'ael', 'orchestrator', 'drift', 'golden', 'server']
/** A file below one of these whose name for what it makes ends so is a member, and can be imported alone. */
const FAMILIES: Readonly<Record<string, RegExp>> = { vsl: /Backend$/, bus: /Transport$/, ael: /Adapter$/ }

export type Exports = Record<string, string | { types: string; default: string }>

/** What package.json has to export, read from what there is: a room by the file of its name, a member by what it makes. */
export function expectedExports(files: readonly SourceFile[]): Exports {
  const paths = new Set(files.map((file) => file.path))
  const rooms = ROOMS.filter((room) => paths.has(`src/${room}/${room}.ts`))
  const members = files
    .filter((file) => membersOf(file).length > 0)
    .map((file) => file.path.slice('src/'.length, -'.ts'.length))
  return {
    ...(paths.has('src/index.ts') && { '.': built('index') }),
    ...Object.fromEntries(rooms.map((room) => [`./${room}`, built(`${room}/${room}`)])),
    ...Object.fromEntries(members.map((member) => [`./${member}`, built(member)])),
    ...(existsSync(join(ROOT, 'test/contracts/testing.ts')) && { './testing': built('testing/testing') }),
    './schemas/*': './schemas/*',
    './package.json': './package.json',
  }
}

/** `memoryBackend` of src/vsl/memory.ts; types and what the room's own file gathers are no members. */
function membersOf({ path, exports }: SourceFile): string[] {
  const [, room, file] = path.split('/') as [string, string, string | undefined]
  const family = FAMILIES[room]
  if (!family || file === `${room}.ts`) return []
  return exports.filter((name) => family.test(name) && /^[a-z]/.test(name))
}

const built = (path: string) => ({ types: `./dist/${path}.d.ts`, default: `./dist/${path}.js` })
