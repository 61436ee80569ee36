import { readFile, rm } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import type { Json } from '../protocol/json.ts'
import { sumOf } from './file-lines.ts'
import { objectPath } from './file-names.ts'
import { replace, syncPath } from './file-sync.ts'
import { type SortedKeys, shelvedKeys } from './sorted-keys.ts'

/**
 * Values by key, each in a file of its own for people to read. The journal is the truth: `lines` says which line wrote a key last, files are
 * written behind it, and one that does not say what that line says is not believed.
 */
export interface Objects {
  readonly lines: ReadonlyMap<string, number>
  readonly keys: SortedKeys
  get(key: string): Promise<Json | undefined>
  /** `text` is the value where it is at hand; else it is taken from the line. */
  put(key: string, seq: number, text?: string): void
  delete(key: string): void
  /** Until then no file is written, however long it takes to read the journal: a folder that is refused stays as it was. */
  begin(): void
  /** Waits until not too much is waiting to be written. */
  room(): Promise<void>
  /** Writes no more files; what is due stays due for the next opening. */
  stop(): Promise<void>
  /** Writes and syncs all files that are behind; on return everything put before the call is safe without the journal. */
  flush(): Promise<void>
}

interface ObjectsOptions {
  readonly folder: string
  /** Which line wrote each key last, as far as it is known; kept up to date from here on. */
  readonly lines: Map<string, number>
  /** What the journal says that this line wrote under the key. */
  readonly fromJournal: (key: string, seq: number) => Promise<Json>
  /** Throws unless the folder is still ours: files written into another's would say what is no longer so. */
  readonly check: () => Promise<void>
  /** Told when files cannot be written; they stay due, and the values are safe in the journal. */
  readonly onError: (error: unknown) => void
}

const WRITERS = 4
/** A key that changes again within this time is written once. */
const PAUSE_MS = 50
const MAX_DUE = 20_000
const MAX_DUE_CHARACTERS = 32 * 1024 * 1024

export function objects({ folder, lines, fromJournal, check, onError }: ObjectsOptions): Objects {
  let sorted: SortedKeys | undefined
  /** Keys whose file is behind, with the text if it is at hand. */
  const due = new Map<string, { readonly text: string | undefined }>()
  let dueCharacters = 0
  /** Written since the last flush, and not yet known to be on the disk. */
  let unsynced = new Set<string>()
  let round: Promise<void> | undefined

  let pause: NodeJS.Timeout | undefined
  let writes = false

  const setDue = (key: string, text: string | undefined) => {
    dueCharacters += (text?.length ?? 0) - (due.get(key)?.text?.length ?? 0)
    due.set(key, { text })
    writeSoon()
  }
  /** Until nothing is due or writing fails; then the next change, flush or opening tries again. */
  function writeSoon(): void {
    if (pause !== undefined || !writes || due.size === 0) return
    pause = setTimeout(() => {
      pause = undefined
      nextRound().then(writeSoon, onError)
    }, PAUSE_MS)
    pause.unref()
  }
  function nextRound(): Promise<void> {
    round ??= check()
      .then(() => inParallel(due.keys(), writeOne))
      .finally(() => {
        round = undefined
      })
    return round
  }

  async function writeOne(key: string): Promise<void> {
    if (!writes) return
    const task = due.get(key)
    const seq = lines.get(key)
    const path = join(folder, objectPath(key))
    if (seq === undefined) await rm(path, { force: true })
    else if (task?.text !== undefined) await replace(path, objectText(key, seq, JSON.parse(task.text)))
    else if ((await objectIn(path, key, seq)) === undefined) {
      const value = await fromLine(key, seq)
      if (value === undefined) return // changed meanwhile: still due
      await replace(path, objectText(key, seq, value))
    }
    unsynced.add(path)
    if (due.get(key) !== task) return // changed meanwhile: still due
    due.delete(key)
    dueCharacters -= task?.text?.length ?? 0
  }

  /** Undefined when the key was changed meanwhile: then the line need not tell any more. */
  async function fromLine(key: string, seq: number): Promise<Json | undefined> {
    try {
      return await fromJournal(key, seq)
    } catch (error) {
      if (lines.get(key) === seq) throw error
      return undefined
    }
  }

  return {
    lines,
    get keys() {
      sorted ??= shelvedKeys(lines.keys())
      return sorted
    },
    async get(key) {
      for (;;) {
        const seq = lines.get(key)
        if (seq === undefined) return undefined
        const text = due.get(key)?.text
        if (text !== undefined) return JSON.parse(text)
        let value = await objectIn(join(folder, objectPath(key)), key, seq)
        if (value === undefined) value = await fromLine(key, seq)
        if (value !== undefined) return value
      }
    },
    put(key, seq, text) {
      if (!lines.has(key)) sorted?.add(key)
      lines.set(key, seq)
      setDue(key, text)
    },
    delete(key) {
      if (!lines.delete(key)) return
      sorted?.delete(key)
      setDue(key, undefined)
    },
    begin() {
      writes = true
      writeSoon()
    },
    async room() {
      if (due.size > MAX_DUE || dueCharacters > MAX_DUE_CHARACTERS) await nextRound().catch(onError)
    },
    async stop() {
      writes = false
      clearTimeout(pause)
      await round?.catch(onError)
    },
    async flush() {
      if (round !== undefined) await nextRound() // it may have begun before what is due now
      if (due.size > 0) await nextRound()
      const paths = unsynced
      unsynced = new Set()
      await syncAll(folder, paths).catch((error) => {
        for (const path of paths) unsynced.add(path)
        throw error
      })
    },
  }
}

const objectText = (key: string, seq: number, value: Json): string =>
  `${JSON.stringify({ key, value, line: seq, sum: sumOf(JSON.stringify(value)) }, null, 2)}\n`

/** The value in an object file, if it is what the line wrote. */
async function objectIn(path: string, key: string, seq: number): Promise<Json | undefined> {
  try {
    const object = JSON.parse(await readFile(path, 'utf8'))
    const sound = object.key === key && object.line === seq && object.sum === sumOf(JSON.stringify(object.value))
    return sound ? object.value : undefined
  } catch {
    return undefined // missing, cut off or not readable: the journal is asked instead
  }
}

/** The files first, then the folders that name them, up to the first. */
async function syncAll(folder: string, paths: ReadonlySet<string>): Promise<void> {
  const folders = new Set<string>()
  for (const path of paths)
    for (let at = dirname(path); !folders.has(at); at = dirname(at)) {
      folders.add(at)
      if (relative(folder, at) === '') break
    }
  await inParallel(paths, syncPath)
  await inParallel(folders, syncPath)
}

/** All of them, also when some fail; then throws what the first of these threw. */
async function inParallel(items: Iterable<string>, work: (item: string) => Promise<void>): Promise<void> {
  const left = [...items][Symbol.iterator]()
  const errors: unknown[] = []
  const worker = async () => {
    for (const item of left) await work(item).catch((error) => errors.push(error))
  }
  await Promise.all(Array.from({ length: WRITERS }, worker))
  if (errors.length > 0) throw errors[0]
}
