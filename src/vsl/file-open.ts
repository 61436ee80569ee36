import { join } from 'node:path'
import type { Clock } from '../protocol/clock.ts'
import type { Json } from '../protocol/json.ts'
import { type Checkpoint, mapOf, readCheckpoint, writeCheckpoint } from './file-checkpoint.ts'
import { damaged, fileError } from './file-errors.ts'
import { claimFolder, namesIn } from './file-folder.ts'
import { sweep } from './file-forget.ts'
import { type Journal, openJournal } from './file-journal.ts'
import type { Line, LineText } from './file-lines.ts'
import { type FolderLock, lockFolder } from './file-lock.ts'
import { type Objects, objects } from './file-objects.ts'
import { type FileState, fileState } from './file-state.ts'

/** A store's folder, locked, its journal read as far as the checkpoint does not tell. */
interface OpenFolder {
  readonly journal: Journal
  readonly state: FileState
  readonly values: Objects
  readonly own: Objects
  /** All of these lines or none, on the disk when it returns; `apply` is called for each in the same turn. One call at a time. */
  append(texts: readonly LineText[], apply: (seq: number, index: number) => void): Promise<void>
  /** Throws unless the folder is still ours. */
  check(): Promise<void>
  /** Call it when nothing is half done. */
  close(): Promise<void>
}

interface OpenOptions {
  readonly create: boolean
  readonly clock: Clock
  readonly segmentBytes: number
  readonly onError: (error: unknown) => void
}

export async function openFolder(path: string, options: OpenOptions): Promise<OpenFolder> {
  let lock: FolderLock | undefined
  let journal: Journal | undefined
  try {
    await claimFolder(path, options.create)
    lock = await lockFolder(path, options.clock)
    const checkpoint = await readCheckpoint(path)
    await refuseIfGone(path)
    journal = await openJournal(join(path, 'journal'), checkpoint?.seq ?? 0, options.segmentBytes)
    return await replayed(path, options, lock, journal, checkpoint)
  } catch (error) {
    await journal?.close().catch(options.onError)
    await lock?.release().catch(options.onError)
    throw fileError(path, error)
  }
}

/** A value's file is written after its line: where there is one, there was a journal. */
async function refuseIfGone(path: string): Promise<void> {
  const journal = join(path, 'journal')
  if ((await namesIn(journal)).length > 0) return
  for (const name of ['values', 'own'])
    if ((await namesIn(join(path, name))).length > 0) throw damaged(`${journal}, which has no file left,`)
}

async function replayed(
  path: string,
  { clock, onError }: OpenOptions,
  lock: FolderLock,
  journal: Journal,
  found: Checkpoint | undefined,
): Promise<OpenFolder> {
  // A checkpoint is not in git: the journal beside it may be another one by now.
  const known = found && (await journal.page(found.seq, 1))[0]?.sum === found.sum ? found : undefined
  if (known === undefined && journal.first !== 1)
    throw damaged(`${path}, whose journal begins at line ${journal.first},`)

  const fromJournal = (key: string, seq: number) => valueIn(journal, key, seq)
  const objectsIn = (name: 'values' | 'own') =>
    objects({
      folder: join(path, name),
      lines: known ? mapOf(known[name]) : new Map(),
      fromJournal,
      check: lock.check,
      onError,
    })
  const [values, own] = [objectsIn('values'), objectsIn('own')]
  const unswept = new Set(known?.unswept)
  const onForgotten = (first: number, last: number) => {
    for (const file of journal.filesOf(first, last)) unswept.add(file)
  }
  const state = fileState({ values, own, known: known?.streams ?? [], clock, onForgotten })
  let checkpointed = known?.seq ?? 0
  /** The last line that `state` tells of; the journal may just have one more. */
  let applied = checkpointed
  while (applied < journal.last) {
    const lines = await journal.page(applied + 1)
    for (const { text } of lines) state.replay(JSON.parse(text))
    applied += lines.length
  }
  values.begin()
  own.begin()

  async function checkpoint(): Promise<void> {
    const seq = applied
    const isSwept = [...unswept].every((file) => file >= journal.growing)
    if (seq === checkpointed && isSwept) return
    const snapshot = state.snapshot()
    await lock.check()
    await values.flush()
    await own.flush()
    const { streams } = state
    await sweep({ journal, unswept, streams, current: values.lines, check: lock.check }).catch(onError) // only room is lost
    const [line] = await journal.page(seq, 1) // as it is after that
    await writeCheckpoint(path, { seq, sum: line!.sum, unswept: [...unswept], ...snapshot })
    checkpointed = seq
  }
  let checkpointing: Promise<void> | undefined
  function checkpointBehind(): void {
    checkpointing ??= checkpoint()
      .catch(onError)
      .finally(() => {
        checkpointing = undefined
      })
  }

  const check = () =>
    lock.check().catch((error) => {
      throw fileError(path, error, true)
    })

  return {
    journal,
    state,
    values,
    own,
    check,
    async append(texts, apply) {
      await check()
      await values.room()
      await own.room()
      const first = journal.last + 1
      await journal.append(texts)
      for (const i of texts.keys()) apply(first + i, i)
      applied = journal.last
      try {
        if (!(await journal.roll())) return
        state.forgetRecent()
        checkpointBehind()
      } catch (error) {
        onError(error) // what was appended is there; the present file serves a while longer
      }
    },
    async close() {
      await checkpointing
      await checkpoint().catch(onError)
      await Promise.all([values.stop(), own.stop()])
      await journal.close().catch(onError) // all of it is on the disk
      await lock.release().catch(onError) // what is left of it is void when this process ends
    },
  }
}

async function valueIn(journal: Journal, key: string, seq: number): Promise<Json> {
  const [raw] = await journal.page(seq, 1)
  const line: Line | undefined = raw && JSON.parse(raw.text)
  if (line?.kind === 'set' && line.key === key) return line.value
  const pair = line?.kind === 'commit' && [...line.inserts, ...line.puts].find(([k]) => k === key)
  if (!pair) throw damaged(`the journal's line ${seq}, which does not tell ${key},`)
  return pair[1]
}
