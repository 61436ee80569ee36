import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { threadId } from 'node:worker_threads'
import { NotFound, Refused } from '../protocol/errors.ts'
import { unlessMissing } from '../protocol/missing-file.ts'
import { makeFolderDurably, replaceDurably, TEMPORARY } from './file-sync.ts'

const MARK = 'mplp-store.json'
const FORMAT = 'mplp-runtime file store'
const VERSION = 1

/** What a clone does without: who has the folder open, what is half written, and what the journal tells anyway. */
const IGNORED = '/locks/\n/checkpoint\n*.tmp\n'
/** What has a sum stays as it was written: git may be set to change the line ends of what looks like text. */
const UNCHANGED = '* -text\n'

/** Makes the folder ours if it is new or empty, or throws NotFound unless it may `create`; throws Refused if it is somebody else's. */
export async function claimFolder(folder: string, create: boolean): Promise<void> {
  if (create) await makeFolderDurably(folder)
  const names = await namesIn(folder) // before the mark, which whoever makes a store at the same time writes before all that counts
  const found = await markIn(folder)
  if (found === undefined) {
    const others = names.filter((name) => !name.startsWith('.git') && !name.endsWith(TEMPORARY))
    if (others.length > 0)
      throw new Refused(
        `${folder} holds other things than a store, ${others[0]} for one`,
        'name an empty folder, or a new one',
      )
    if (!create) throw new NotFound('store', folder)
    const mark = `${JSON.stringify({ format: FORMAT, version: VERSION }, null, 2)}\n`
    await addLines(join(folder, '.gitignore'), IGNORED)
    await addLines(join(folder, '.gitattributes'), UNCHANGED)
    await replaceDurably(join(folder, MARK), mark, unlocked())
  } else if (found.version !== VERSION)
    throw new Refused(
      `${folder} is a store of version ${found.version}, this release knows version ${VERSION}`,
      'use the release that wrote it, or copy the store with copyStore',
    )
}

/** Below what somebody has put there: of git's rules the last one counts. */
async function addLines(path: string, lines: string): Promise<void> {
  const found = (await readFile(path, 'utf8').catch(unlessMissing)) ?? ''
  if (found.endsWith(lines)) return
  const ended = found === '' || found.endsWith('\n') ? found : `${found}\n`
  await replaceDurably(path, `${ended}${lines}`, unlocked())
}

let writings = 0
/** Nobody has the folder's lock yet: several may write the same, also of one process. */
const unlocked = (): string => `.${process.pid}-${threadId}-${++writings}`

/** None in a folder that is not there. */
export const namesIn = async (folder: string): Promise<readonly string[]> =>
  (await readdir(folder).catch(unlessMissing)) ?? []

async function markIn(folder: string): Promise<{ version: unknown } | undefined> {
  const text = await readFile(join(folder, MARK), 'utf8').catch(unlessMissing)
  if (text === undefined) return undefined
  try {
    const mark = JSON.parse(text)
    if (mark?.format !== FORMAT) throw new SyntaxError(`${MARK} is of another kind`)
    return mark
  } catch (cause) {
    throw new Refused(`${folder} has a ${MARK} that is not ours`, 'name another folder, or restore that file', {
      cause,
    })
  }
}
