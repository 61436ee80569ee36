import { Closed, NotFound } from '../protocol/errors.ts'
import { fromRoot } from '../protocol/path-pattern.ts'
import { reporter, telling } from '../protocol/reporter.ts'
import { turns } from '../protocol/turns.ts'
import { slept } from '../protocol/waiting.ts'
import type { FindingRecord } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { serially } from '../vsl/serially.ts'
import { background } from './background.ts'
import { hasBaseline, takeBaseline } from './baseline.ts'
import {
  checkAuthor,
  checkFinding,
  checkGraph,
  checkRead,
  checkStale,
  checkTakingBack,
  checkWhich,
} from './check-input.ts'
import { byPath, fileId } from './compare.ts'
import { finish, recover } from './deeds.ts'
import { ACTOR, contentOf, type Desk, enterFolders, known, load, observedAt, recorded } from './desk.ts'
import { follow, newsIn } from './follow.ts'
import { endsOf, type Looked, passedBy } from './look.ts'
import { noticing } from './noticing.ts'
import { checkStrategy, policy } from './policy.ts'
import { checkPath, checkPaths, openRoot } from './root.ts'
import { type ScanOptions, scan } from './scan.ts'
import { foldersOf, selectFiles } from './select.ts'
import { reads } from './stale.ts'
import { takeBack } from './take-back.ts'
import { checkOptions, checkScanOptions, type ScanReport, type Tracker, type TrackOptions } from './tracker.ts'
import { type Watching, watchFolder } from './watch.ts'
import { writing } from './writing.ts'

const KEEP_BYTES = 5 * 1024 * 1024
const SETTLE_MS = 100
const nobody = () => undefined

/**
 * Tracks the files of a context. The first time everything that belongs is taken into the graph as it lies there; after that, opening finishes what
 * a crash cut off and finds what has changed since. Throws InvalidInput and Refused.
 */
export async function trackFiles(graph: ProjectGraph, options: TrackOptions): Promise<Tracker> {
  checkGraph(graph)
  checkOptions(options)
  const { clock = graph.clock } = options
  const onError = reporter(options.onError ?? nobody)
  const desk: Desk = {
    graph,
    root: await openRoot(options.root),
    select: selectFiles(options),
    clock,
    keepBytes: options.keepBytes ?? KEEP_BYTES,
    verdictOn: policy(options.rules),
    seen: new Map(),
    findings: new Map(),
    begun: new Set(),
    held: new Map(),
    turn: turns(),
  }
  const work = noticing(desk, {
    onFindings: telling(options.onFindings ?? nobody, onError),
    onReconciled: telling(options.onReconciled ?? nobody, onError),
  })
  const read = reads(desk)
  const stop = new AbortController()
  const aside = background({ signal: stop.signal, clock, onError })
  const inTurn = serially() // what is compared does not change under our hands
  const walking = serially() // two walks at once would each have half of the rules
  let closing: Promise<void> | undefined

  const refuseIfClosed = () => {
    if (closing) throw new Closed('the tracker')
  }
  const findings = () => [...recorded(desk)].sort(byPath)
  const notice = (paths: readonly string[], thorough?: boolean) => inTurn(() => work.look(paths, thorough))

  /** The walk goes on beside other work; what it suspects is then looked at in its turn. */
  const scanned = ({ folders: chosen, ...given }: ScanOptions = {}): Promise<ScanReport> =>
    walking(async () => {
      const select = chosen === undefined ? selectFiles(options) : desk.select
      const [open, shut]: [string[], Looked['unreadable'][number][]] = [[], []]
      for (const folder of chosen ?? [])
        await enterFolders(desk, `${folder}/-`).then(
          () => open.push(folder),
          (error) => shut.push(passedBy(folder, error)),
        )
      const found = await scan(desk.root, select, known(desk), { ...given, ...(chosen && { folders: open }) })
      desk.select = select
      const dropped = [...desk.seen.keys()].filter((path) => !desk.select.hasFile(path))
      const looked = await notice([...found.paths, ...dropped], given.thorough)
      const { files, folders } = found
      const unreadable = [...shut, ...found.unreadable, ...looked.unreadable]
      return { files, folders, unreadable, findings: findings() }
    })

  /** Rules that we have written ourselves bind at once: the next write may already be one that they forbid. */
  async function obey(paths: readonly string[]): Promise<void> {
    if (paths.some((path) => desk.select.isRules(path))) await scanned().catch(onError) // what was written is written
  }

  /** A path that something happened to may be a file, a folder, or have been either. */
  async function stirred(paths: readonly string[]): Promise<void> {
    // In a folder that was replaced, which '' stands for, rules may have been too.
    if (paths.some((path) => path === '' || desk.select.isRules(path))) {
      await scanned()
      if (!watching) return
      await watching.anew() // a folder that belongs by the new rules is not watched yet
      await scanned()
      return
    }
    const files = new Set(paths)
    const folders: string[] = []
    const gone = new Set<string>()
    for (const path of paths) {
      const there = await desk.root.stat(path).catch(() => undefined) // the look at it says what is wrong
      if (there?.isDirectory()) folders.push(path)
      else if (desk.select.isEntered(path)) gone.add(path)
    }
    if (gone.size > 0)
      for (const path of known(desk).paths()) if (foldersOf(path).some((folder) => gone.has(folder))) files.add(path)
    await notice([...files])
    if (folders.length > 0) await scanned({ folders })
  }

  let watching: Watching | undefined

  const given = {
    ...(options.onProgress && { onProgress: options.onProgress }),
    ...(options.signal && { signal: options.signal }),
  }
  await load(desk)
  const revision = graph.revision
  try {
    await recover(desk)
    if (hasBaseline(desk)) await scanned(given)
    else await inTurn(() => takeBaseline(desk, given))
    await inTurn(() => work.applyRules([...recorded(desk)])) // they may be newer than what is on record
    await inTurn(() => work.takeIn(new Set([...recorded(desk)].flatMap(({ confirm_id }) => confirm_id ?? []))))
    if (options.watch) {
      watching = await watchFolder(desk.root.path, {
        clock,
        settleMs: options.settleMs ?? SETTLE_MS,
        isIgnored: (folder) => !desk.select.hasFolder(folder),
        onSettled: (paths) => aside.begin(() => stirred(paths)),
        onError,
      })
      await scanned(given) // for what happened while the watches were put up
    }
  } catch (error) {
    await watching?.close()
    throw error
  }

  const following = follow(graph, { after: revision, signal: stop.signal, clock, onError }, async (body) => {
    if (body.actor === ACTOR) return
    const { paths, confirms, traces } = newsIn(body, desk.root.path)
    for (const trace of traces) read.forget(trace)
    if (paths.length > 0) aside.begin(() => stirred(paths))
    if (confirms.length > 0) aside.begin(() => inTurn(() => work.takeIn(new Set(confirms))))
  })
  const scheduled = options.scanEveryMs === undefined ? undefined : onSchedule(options.scanEveryMs)

  async function onSchedule(ms: number): Promise<void> {
    while (await slept(clock, ms, stop.signal)) {
      work.again()
      await scanned({ signal: stop.signal }).catch((error) => !stop.signal.aborted && onError(error))
    }
  }

  async function dealtWith(): Promise<void> {
    await watching?.quiet()
    await aside.tried()
    await walking(() => inTurn(async () => undefined))
  }

  return {
    root: desk.root.path,
    async scan(scanOptions = {}) {
      refuseIfClosed()
      checkScanOptions(scanOptions)
      const { folders = [] } = scanOptions
      for (const folder of folders) checkPath(folder, 'folders')
      work.again()
      return scanned(scanOptions)
    },
    async look(paths) {
      refuseIfClosed()
      checkPaths(paths)
      return (await notice(paths)).news
    },
    findings,
    async diff(finding) {
      checkFinding(finding)
      const { diff, diff_blob } = finding
      const bytes = diff_blob === undefined ? undefined : await contentOf(desk, diff_blob)
      return diff ?? (bytes && new TextDecoder().decode(bytes))
    },
    async reconcile(which, strategy, by = {}) {
      refuseIfClosed()
      checkStrategy(strategy)
      checkWhich(which)
      checkAuthor(by)
      const reason = `reconciled by hand: ${strategy}`
      const results = await inTurn(() => work.settle(chosen(findings(), which), strategy, { reason, ...by }))
      await obey(results.flatMap(({ finding }) => endsOf(finding)))
      return results
    },
    async mayWrite(path) {
      checkPath(path)
      await enterFolders(desk, path)
      return !desk.select.isIgnored(path)
    },
    async staleCheck(path, found, asker) {
      checkPath(path)
      checkStale({ found, asker })
      await enterFolders(desk, path)
      return read.isStale(path, found, asker)
    },
    async sawRead(path, digest, reader) {
      checkPath(path)
      checkRead({ digest, reader })
      read.note(path, digest, reader)
      await enterFolders(desk, path)
      if (read.isStale(path, digest, {})) aside.begin(() => notice([path])) // seen on reading: somebody has changed it
    },
    async writing(paths) {
      checkPaths(paths)
      return writing(desk, { paths, serially: inTurn, read, obey, release: (left) => aside.begin(() => notice(left)) })
    },
    async observed(paths) {
      refuseIfClosed()
      checkPaths(paths)
      return inTurn(async () => {
        await finish(desk)
        return observedAt(desk, paths)
      })
    },
    async takeBack(taking) {
      refuseIfClosed()
      checkTakingBack(taking)
      const taken = await inTurn(() => takeBack(desk, taking))
      await obey(taking.files.map(({ path }) => path))
      return taken
    },
    async idle() {
      await dealtWith()
      if (aside.isBusy) await dealtWith() // what that has stirred up; where something changes all the time, it would never end
    },
    close() {
      closing ??= (async () => {
        stop.abort()
        await watching?.close()
        await Promise.all([following, scheduled, aside.ended()])
        await walking(() => inTurn(async () => undefined))
      })()
      return closing
    },
  }
}

function chosen(records: readonly FindingRecord[], which: readonly string[] | 'all'): readonly FindingRecord[] {
  if (which === 'all') return records
  const named = which.map((given) => {
    const name = fromRoot(given)
    const found = records.find(
      ({ finding_id, path, from }) =>
        name === finding_id || name === path || name === from || fileId(name) === finding_id,
    )
    if (!found) throw new NotFound('finding', given)
    return found
  })
  return [...new Set(named)] // a finding may be named twice, by path and by id
}
