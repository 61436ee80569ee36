import { type Clock, systemClock } from '../protocol/clock.ts'
import { Closed, InvalidInput, NotFound, type Problem } from '../protocol/errors.ts'
import type { Digest } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'
import type { FindingRecord } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { answer } from './ask.ts'
import { hasBaseline, takeBaseline } from './baseline.ts'
import { fileId } from './compare.ts'
import { recover } from './deeds.ts'
import { ACTOR, becoming, commit, contentOf, type Desk, enterFolders, known, load, observed, recorded } from './desk.ts'
import { follow, newsIn } from './follow.ts'
import { look } from './look.ts'
import type { Observed } from './observe.ts'
import { checkStrategy, policy, type Rule, type Strategy } from './policy.ts'
import { checkPath, openRoot } from './root.ts'
import { type Scan, type ScanOptions, scan } from './scan.ts'
import { type Selection, selectFiles } from './select.ts'
import { ask, type Reconciled, settle } from './settle.ts'
import { type Reader, reads } from './stale.ts'
import { type TakenBack, type TakingBack, takeBack } from './take-back.ts'
import { type Watching, watchFolder } from './watch.ts'
import { type Writing, writing } from './writing.ts'

export interface TrackOptions extends Selection {
  readonly root: string
  /** Content up to this many bytes is kept, so that it can be shown, merged and brought back: 5 MiB. Of larger files only the digest is known. */
  readonly keepBytes?: number
  /** Who wins where. What no rule matches is asked. */
  readonly rules?: readonly Rule[]
  /** Notice changes as they happen. Without it, when somebody looks. */
  readonly watch?: boolean
  /** Half of a save is not drift: how long a path must be quiet, 100 ms. */
  readonly settleMs?: number
  /** Scan everything this often, for what a lost watch event missed. */
  readonly scanEveryMs?: number
  readonly clock?: Clock
  /** Of the scan that opening does. */
  readonly onProgress?: ScanOptions['onProgress']
  readonly signal?: AbortSignal
  /** What graph and disk have come to disagree about. */
  readonly onFindings?: (news: readonly FindingRecord[]) => void
  /** What rules and decisions have done about it. */
  readonly onReconciled?: (results: readonly Reconciled[]) => void
  /** What went wrong where nobody is waiting for an answer. */
  readonly onError?: (error: unknown) => void
}

/** A folder and a context's graph, held against each other. */
export interface Tracker {
  /** The folder, by its real path. */
  readonly root: string
  /** Looks at everything: finds what no watching told. */
  scan(options?: ScanOptions): Promise<ScanReport>
  /** Looks at these paths now. */
  look(paths: readonly string[]): Promise<readonly FindingRecord[]>
  /** What graph and disk disagree about, as far as it has been noticed. */
  findings(): readonly FindingRecord[]
  /** The diff of a finding, also of one too long to lie in the graph. */
  diff(finding: FindingRecord): Promise<string | undefined>
  /** Settles findings, named by path or id, by a strategy of the caller's choice. Throws NotFound where there is none. */
  reconcile(
    which: readonly string[] | 'all',
    strategy: Strategy,
    by?: { actor?: string; reason?: string },
  ): Promise<readonly Reconciled[]>
  /** Do the ignore rules let us write there? They bind our own writer too. */
  mayWrite(path: string): Promise<boolean>
  /** Before a write: is what lies there something that the asker has not seen? As the file adapter asks it. */
  readonly staleCheck: (path: string, found: Digest | undefined, asker: Reader) => Promise<boolean>
  /** A run has read a file, and what it saw. */
  sawRead(path: string, digest: Digest, reader: Reader): Promise<void>
  /** An action is about to change these paths: until it has said what it did, or has failed, they are not looked at. */
  writing(paths: readonly string[]): Writing
  /** What lies at these paths now, as far as they belong. */
  observed(paths: readonly string[]): Promise<ReadonlyMap<string, Observed | undefined>>
  /** Brings graph and files back to what they were, as a rollback planned it. */
  takeBack(taking: TakingBack): Promise<readonly TakenBack[]>
  /** Everything noticed so far has been dealt with. */
  idle(): Promise<void>
  /** Stops watching and waits for what is in hand. Safe to call twice. */
  close(): Promise<void>
}

export interface ScanReport extends Pick<Scan, 'files' | 'folders' | 'unreadable'> {
  readonly findings: readonly FindingRecord[]
}

const KEEP_BYTES = 5 * 1024 * 1024
const SETTLE_MS = 100

/**
 * Tracks the files of a context. The first time everything that belongs is taken into the graph as it lies there; after that, opening finishes what
 * a crash cut off and finds what has changed since. Throws InvalidInput and Refused.
 */
export async function trackFiles(graph: ProjectGraph, options: TrackOptions): Promise<Tracker> {
  checkOptions(options)
  const { clock = graph.clock ?? systemClock, onError = () => undefined } = options
  const desk: Desk = {
    graph,
    root: await openRoot(options.root),
    select: selectFiles(options),
    clock,
    keepBytes: options.keepBytes ?? KEEP_BYTES,
    verdictOn: policy(options.rules),
    seen: new Map(),
    findings: new Map(),
    held: new Map(),
  }
  const read = reads(desk)
  const stop = new AbortController()
  let closing: Promise<void> | undefined
  let queue: Promise<unknown> = Promise.resolve()
  let scans: Promise<unknown> = Promise.resolve()

  const refuseIfClosed = () => {
    if (closing) throw new Closed('the tracker')
  }
  /** One thing at a time: what is compared does not change under our hands. */
  function serially<T>(work: () => Promise<T>): Promise<T> {
    const result = queue.then(work)
    queue = result.catch(() => undefined) // its caller hears of it
    return result
  }
  const notice = (paths: readonly string[]) => serially(() => noticed(paths))

  async function noticed(paths: readonly string[]): Promise<readonly FindingRecord[]> {
    const { news } = await look(desk, paths)
    if (news.length > 0) options.onFindings?.(news)
    await applyRules(news)
    return news
  }
  async function applyRules(records: readonly FindingRecord[]): Promise<void> {
    for (const strategy of ['files', 'graph', 'merge'] as const) {
      const ruled = records.filter((record) => desk.verdictOn(record).strategy === strategy)
      if (ruled.length > 0)
        tell(await settle(desk, idsOf(ruled), strategy, { reason: `reconciled by rule: ${strategy}` }))
    }
  }
  const tell = (results: readonly Reconciled[]) => {
    if (results.length > 0) options.onReconciled?.(results)
    return results
  }

  /** The walk goes on beside other work; what it suspects is then looked at in its turn. Two walks would undo each other's rules. */
  function scanned(given: ScanOptions = {}): Promise<ScanReport> {
    const result = scans.then(async () => {
      const select = given.folders === undefined ? selectFiles(options) : desk.select
      for (const folder of given.folders ?? []) await enterFolders(desk, `${folder}/-`)
      const found = await scan(desk.root, select, known(desk), given)
      desk.select = select
      const dropped = [...desk.seen.keys()].filter((path) => !desk.select.hasFile(path))
      await notice([...found.paths, ...dropped])
      const { files, folders, unreadable } = found
      return { files, folders, unreadable, findings: [...recorded(desk)] }
    })
    scans = result.catch(() => undefined)
    return result
  }

  /** A path that something happened to may be a file, a folder, or have been either. */
  async function stirred(paths: readonly string[]): Promise<void> {
    const files = new Set<string>()
    const folders: string[] = []
    const haveRulesChanged = paths.some((path) => desk.select.isRules(path))
    for (const path of paths) {
      const there = await desk.root.stat(path)
      if (there?.isDirectory()) folders.push(path)
      else if (desk.select.isEntered(path))
        for (const inside of known(desk).paths()) if (inside.startsWith(`${path}/`)) files.add(inside)
      files.add(path)
    }
    if (files.size > 0) await notice([...files])
    if (haveRulesChanged) await scanned()
    else if (folders.length > 0) await scanned({ folders })
  }

  /** People have decided, or somebody else has changed what the graph believes, or says that files have changed. */
  async function answered(confirms: ReadonlySet<string>): Promise<void> {
    const asked = [...recorded(desk)].filter(({ confirm_id }) => confirm_id !== undefined && confirms.has(confirm_id))
    if (asked.length === 0) return
    await look(
      desk,
      asked.flatMap(({ path, from }) => (from === undefined ? [path] : [path, from])),
    )
    for (const { finding_id } of asked) {
      const record = graph.get('finding', finding_id)?.data
      const said = record && !record.declined ? await answer(graph, record) : undefined
      if (!record || !said) continue
      if (said.strategy === 'leave')
        await commit(
          desk,
          () => becoming(desk, 'finding', finding_id, { ...record, declined: true }),
          'people want both left as they are',
        )
      else {
        const by = { reason: `decided: ${said.strategy}`, gates: new Map([[finding_id, said.gate]]) }
        const [done] = tell(await settle(desk, [finding_id], said.strategy, by))
        if (done?.outcome === 'refused' || done?.outcome === 'failed')
          await ask(desk, [{ record, conflict: { reason: done.reason! } }]) // it cannot be done as they want it
      }
    }
  }

  let watching: Watching | undefined
  const stirring = new Set<Promise<void>>()
  const inBackground = (work: Promise<unknown>): void => {
    const ended = work.then(() => undefined, onError).finally(() => stirring.delete(ended))
    stirring.add(ended)
  }

  const given = {
    ...(options.onProgress && { onProgress: options.onProgress }),
    ...(options.signal && { signal: options.signal }),
  }
  await load(desk)
  const revision = graph.revision
  try {
    await recover(desk)
    if (hasBaseline(desk)) await scanned(given)
    else await serially(() => takeBaseline(desk, given))
    await serially(() => applyRules([...recorded(desk)])) // they may be newer than what is on record
    await serially(() => answered(new Set([...recorded(desk)].flatMap(({ confirm_id }) => confirm_id ?? []))))
    if (options.watch) {
      watching = await watchFolder(desk.root.path, {
        clock,
        settleMs: options.settleMs ?? SETTLE_MS,
        isIgnored: (folder) => !desk.select.hasFolder(folder),
        onSettled: (paths) => inBackground(stirred(paths)),
        onError,
      })
      await scanned(given) // for what happened while the watches were put up
    }
  } catch (error) {
    await watching?.close()
    throw error
  }

  const following = follow(graph, revision, stop.signal, async (body) => {
    if (body.actor === ACTOR) return
    const { paths, confirms, traces } = newsIn(body, desk.root.path)
    for (const trace of traces) read.forget(trace)
    if (paths.length > 0) inBackground(stirred(paths))
    if (confirms.length > 0) inBackground(serially(() => answered(new Set(confirms))))
  }).catch((error) => {
    if (!stop.signal.aborted && !(error instanceof Closed)) onError(error)
  })
  const scheduled = options.scanEveryMs === undefined ? undefined : onSchedule(options.scanEveryMs)

  async function onSchedule(ms: number): Promise<void> {
    while (!stop.signal.aborted) {
      await clock.sleep(ms, stop.signal).catch(() => undefined) // stopped: the loop's condition says so
      if (!stop.signal.aborted)
        await scanned({ signal: stop.signal }).catch((error) => !stop.signal.aborted && onError(error))
    }
  }

  return {
    root: desk.root.path,
    async scan(scanOptions) {
      refuseIfClosed()
      return scanned(scanOptions)
    },
    async look(paths) {
      refuseIfClosed()
      for (const path of paths) checkPath(path)
      return notice(paths)
    },
    findings: () => [...recorded(desk)],
    async diff({ diff, diff_blob }) {
      const bytes = diff_blob === undefined ? undefined : await contentOf(desk, diff_blob)
      return diff ?? (bytes && new TextDecoder().decode(bytes))
    },
    async reconcile(which, strategy, by = {}) {
      refuseIfClosed()
      checkStrategy(strategy)
      return serially(async () => {
        const named = chosen([...recorded(desk)], which)
        await look(
          desk,
          named.flatMap(({ path, from }) => (from === undefined ? [path] : [path, from])),
        )
        return tell(await settle(desk, idsOf(named), strategy, { reason: `reconciled by hand: ${strategy}`, ...by }))
      })
    },
    async mayWrite(path) {
      checkPath(path)
      await enterFolders(desk, path)
      return !desk.select.isIgnored(path)
    },
    async staleCheck(path, found, asker) {
      await enterFolders(desk, path)
      return read.isStale(path, found, asker)
    },
    async sawRead(path, digest, reader) {
      read.note(path, digest, reader)
      await enterFolders(desk, path)
      if (read.isStale(path, digest, {})) inBackground(notice([path])) // seen on reading: somebody has changed it
    },
    writing: (paths) => writing(desk, { paths, serially, read, release: (left) => inBackground(notice(left)) }),
    async observed(paths) {
      refuseIfClosed()
      return serially(async () => {
        const found = new Map<string, Observed | undefined>()
        for (const path of paths) {
          await enterFolders(desk, path)
          if (desk.select.hasFile(path)) found.set(path, await observed(desk, path))
        }
        return found
      })
    },
    async takeBack(taking) {
      refuseIfClosed()
      return serially(() => takeBack(desk, taking))
    },
    async idle() {
      for (let before: unknown; before !== queue || stirring.size > 0; ) {
        before = queue
        await watching?.quiet()
        await Promise.all([queue, scans, ...stirring])
      }
    },
    close() {
      closing ??= (async () => {
        stop.abort()
        await watching?.close()
        await Promise.all([following, scheduled, ...stirring])
        await Promise.all([queue, scans])
      })()
      return closing
    },
  }
}

const idsOf = (records: readonly FindingRecord[]): readonly string[] => records.map(({ finding_id }) => finding_id)

function chosen(records: readonly FindingRecord[], which: readonly string[] | 'all'): readonly FindingRecord[] {
  if (which === 'all') return records
  return which.map((name) => {
    const found = records.find(
      ({ finding_id, path, from }) =>
        name === finding_id || name === path || name === from || fileId(name) === finding_id,
    )
    if (!found) throw new NotFound('finding', name)
    return found
  })
}

function checkOptions(options: TrackOptions): void {
  const problems: Problem[] = []
  const number = (name: 'keepBytes' | 'settleMs' | 'scanEveryMs', least: number) => {
    const value = options[name]
    if (value !== undefined && !(Number.isFinite(value) && value >= least))
      problems.push({
        path: name,
        rule: 'minimum',
        message: `must be a number of at least ${least}`,
        found: shown(value),
      })
  }
  if (typeof options?.root !== 'string' || options.root === '')
    problems.push({ path: 'root', rule: 'type', message: 'must be a folder', found: shown(options?.root) })
  else {
    number('keepBytes', 0)
    number('settleMs', 1)
    number('scanEveryMs', 1)
  }
  if (problems.length > 0) throw new InvalidInput('track options', problems)
}
