import type { ActionLayer, Hands } from '../ael/layer.ts'
import { type Clock, systemClock } from '../protocol/clock.ts'
import { allOf } from '../protocol/each.ts'
import { Closed, NotFound } from '../protocol/errors.ts'
import { oneOf, refuseUnlessFit, signal as signalField, text } from '../protocol/fields.ts'
import { PLAN_ENDINGS } from '../protocol/lifecycle.ts'
import { whenAborted } from '../protocol/on-abort.ts'
import { reporter } from '../protocol/reporter.ts'
import { unlessNotFound } from '../protocol/unless-not-found.ts'
import type { Commit, Node } from '../psg/change.ts'
import type { Document, DocumentKind } from '../psg/document.ts'
import { type EndedRun, endedRuns } from '../psg/ended-runs.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { CONTEXTS_AT_ONCE } from '../psg/open-graphs.ts'
import { openPlans } from '../psg/open-plans.ts'
import { caughtUp, openProject, type Project, upToDate } from '../psg/project.ts'
import type { Backend } from '../vsl/backend.ts'
import type { Resolver } from './bind.ts'
import { type BringingIn, bringIn } from './bring-in.ts'
import { callsUnderWay } from './calls.ts'
import { childRuns } from './children.ts'
import { handsOf } from './hands.ts'
import { type IntegrationKind, ingest } from './ingest.ts'
import { dueRuns, wantsSomebody } from './keeper.ts'
import type { Lacking } from './lacking.ts'
import { leftRuns } from './left-runs.ts'
import type { LiveRun } from './live.ts'
import { mineOf } from './mine.ts'
import { callModule, type Module, moduleProblem } from './modules/module.ts'
import { protocolModules } from './modules/modules.ts'
import { patientWith } from './patiently.ts'
import { patrol } from './patrol.ts'
import { type Registry, registry } from './registry.ts'
import type { Placed } from './requests.ts'
import { checkRerun, type RerunOptions, rerunIn } from './rerun.ts'
import { rerunIds } from './rerun-ids.ts'
import { keepEnded } from './retention.ts'
import { type RunHandle, runHandle } from './run.ts'
import { checkedLayer, checkRuntimeOptions } from './runtime-check.ts'
import { type Sight, standingByChildren } from './standing.ts'
import type { Flow } from './submit.ts'
import { checkedFlow, chosenRun, refuseBudget } from './submit-check.ts'
import { type Trimmed, type TrimOptions, trim } from './trim.ts'
import { unlessSilent } from './unless-silent.ts'
import { type Wishes, wishes } from './wishes.ts'
import { type Placeless, withoutPlace } from './without-place.ts'

export interface RuntimeOptions {
  readonly store: Backend
  /** What carries actions out. Given as a function it gets what it needs of graph, store and people: then gated tools ask, and budgets count. */
  readonly layer: ActionLayer | ((hands: Hands) => ActionLayer)
  readonly clock?: Clock
  /** How steps are executed that no binding names. */
  readonly resolve?: Resolver
  /** How long an owner may be silent before others take over: 10 s. */
  readonly leaseTtlMs?: number
  /** How often to look for runs that nobody looks after: every second. */
  readonly patrolMs?: number
  readonly quietMs?: number
  /** How long `close` waits for what is under way, be it a step or a call: 10 s. */
  readonly drainMs?: number
  /** Contexts that ended longer ago are taken away, now and every hour, as by `trim`. All stay when absent. */
  readonly keepEndedMs?: number
  /** Called with every commit that this runtime makes, in the order of its graph. */
  readonly onCommit?: (commit: Commit) => void
  /** What went wrong where nobody is waiting for an answer; a warning of the process when absent. */
  readonly onError?: (error: unknown) => void
  /** Told once for an outage that the store cannot be reached, or written to, and runs wait for it; `onError` when absent. */
  readonly onAway?: (error: unknown) => void
  /**
   * Which runs to look after, by their plan; what is added to the set later counts. All that are in the store when absent. Others keep their owner, or
   * wait for one.
   */
  readonly mine?: ReadonlySet<string>
  /** Rules to switch over; for proofs. */
  readonly switched?: ReadonlySet<string>
}

/** The object people hold. Runs what is submitted, takes up what others left, and tells what waits for a person. */
export interface Runtime extends Wishes {
  readonly project: Project
  /** The protocol's ten, and whatever else is loaded; each looks after its own areas of the graph. */
  readonly modules: Registry<Module>
  /**
   * Asks a module for what `input.intent` names and answers with the object as it then stands: each of the protocol's ten with one of its own kind.
   * Throws NotFound for a module that is not loaded, InvalidInput, or RuleViolation when the graph refuses; then nothing changed.
   */
  call<M extends string>(
    module: M,
    input: unknown,
    by?: { readonly actor?: string; readonly reason?: string },
  ): Promise<Document<M extends DocumentKind ? M : DocumentKind>>
  /** Puts a flow into the graph and runs it. Throws InvalidInput or RuleViolation, and then nothing is there. */
  submit(flow: Flow): Promise<RunHandle>
  /** The run that a flow has chosen the id of (`chosen.run`): submitted, unless it is there, by whatever process; then it is given as it is. Throws as `submit` does. */
  submitOnce(flow: Flow): Promise<RunHandle>
  /**
   * Goes on where a run has failed or was cancelled, in a run of its own: what that one had done, and nobody has taken back, is carried over and not done
   * again. Its options hold, and whom it asked is asked again; one of several agents has a session of its own. Whoever asks twice is given the same run,
   * as it is. Throws NotFound, Refused for a run that goes on or is completed, InvalidInput.
   */
  rerun(id: string, options?: RerunOptions): Promise<RunHandle>
  /** A run by its own id, its plan's or its trace's. Throws NotFound. */
  get(id: string): Promise<RunHandle>
  /** Every run that has not ended, by the ids of their plans: also those that wait or are paused. Their `phase` tells which. */
  list(): Promise<readonly RunHandle[]>
  /** Runs that have ended, the last one first: all of them, or those that ended so, or before the run `after`. Costs what is asked for and passed over. */
  ended(options?: { readonly status?: (typeof PLAN_ENDINGS)[number]; readonly after?: string }): AsyncIterable<EndedRun>
  /** Takes in an event of a tool, a file, git or CI. It is validated and told as external_integration. */
  ingest(context: string, kind: IntegrationKind, event: unknown, options?: { source?: string }): Promise<void>
  /**
   * Takes contexts away that ended before a time, with all that is theirs, while runs go on. Throws InvalidInput, NotFound for a bus to forget that the
   * store does not know.
   */
  trim(options: Omit<TrimOptions, 'clock'>): Promise<Trimmed>
  /**
   * Lets what is under way come to a boundary, hands over, stops; once `signal` is aborted it waits for no boundary. Safe to call twice, the second time
   * in more of a hurry. Throws Unavailable when the store does not answer for 10 s. The store stays open: it is yours. What a step carries out may call
   * it, but not await it: it would wait for itself until `drainMs` is over.
   */
  close(signal?: AbortSignal): Promise<void>
}

/** Throws InvalidInput for options that are none. */
export async function createRuntime(options: RuntimeOptions): Promise<Runtime> {
  checkRuntimeOptions(options)
  const { store, clock = systemClock, resolve, switched } = options
  const onError = reporter(options.onError)
  const live = new Map<string, LiveRun>()
  const patiently = patientWith(clock, options.onAway ? reporter(options.onAway) : onError)
  const mine = options.mine && mineOf(options.mine)
  let closing: Promise<void> | undefined
  const children = childRuns({
    project: () => project,
    live,
    mine,
    isClosing: () => closing !== undefined,
    known,
    submit: (flow, parent) => unlessFaster(chosenRun(flow), () => submitted(flow, { parent })),
    locate: (id) => locateRun(id).catch(unlessNotFound),
    look: (context) => look(context),
  })
  const layer =
    typeof options.layer === 'function'
      ? checkedLayer(options.layer(handsOf(store, patiently, live, children)))
      : options.layer
  const project = await openProject(store, {
    clock,
    onError,
    ...(options.onCommit && { onCommit: options.onCommit }),
    ...(switched && { switched }),
  })
  const left = leftRuns({ layer, clock, onError })
  const {
    look: lookAt,
    keeperOf,
    close,
  } = patrol({ ...options, mine, project, layer, live, left, children, patiently, clock, onError })
  /** For what is stored already: whoever asked has got it, also when the context cannot be looked at now. A round finds it. */
  const look = (context: string) => lookAt(context).catch(onError)
  const hurry = new AbortController()
  const hurried = () => hurry.abort()
  const closed = new AbortController()

  const open = () => {
    if (closing) throw new Closed('the runtime')
  }

  /** The run, and its graph as `opened` leaves it: with all of the plan in memory, unless that is not needed. */
  async function locateRun(id: string, opened = upToDate): Promise<Placed> {
    const where = await project.locate(id, 'run', 'plan', 'trace')
    if (where) {
      const graph = await opened(project, where)
      const [run] = await graph.nodesOf(where.group, ['run'])
      if (run) return { graph, run }
    }
    throw new NotFound('run', id)
  }

  const calls = callsUnderWay(clock, options.drainMs)
  const asked = calls.counted(wishes({ project, clock, open, resolve, locateRun, look }))
  const handle = (graph: ProjectGraph, run: Node<'run'>): RunHandle =>
    runHandle(graph, run, {
      cancel: () => asked.cancel(run.data.plan_id),
      driving: async () => (await keeperOf(graph.id))?.settled(run.id),
      lacking: () => lackingHere(graph, run),
      withoutPlace: () => placelessHere(run),
      standing: () => standingByChildren(sight, graph, run),
      childRests: async (id, signal) => (await known(id))?.rest(signal),
      isAlone: options.mine !== undefined,
      closed: closed.signal,
    })

  const sight: Sight = {
    project,
    isStuck: (graph, run) => options.mine !== undefined && lackingHere(graph, run) !== undefined,
    waitsForPlace: (run) => placelessHere(run).length > 0,
  }

  /** What keeps this process from taking up a run that wants somebody. */
  function lackingHere(graph: ProjectGraph, { id, data: { plan_id } }: Node<'run'>): Lacking | undefined {
    const run = graph.get('run', id)
    const isSeenTo = live.has(plan_id) || (mine && !mine.has(plan_id))
    return run && !isSeenTo && wantsSomebody(graph, run) ? left.lacking(graph, run) : undefined
  }

  function placelessHere({ data: { plan_id } }: Node<'run'>): readonly Placeless[] {
    const driven = live.get(plan_id)
    return driven ? withoutPlace(driven) : []
  }

  /** The run of that very id: another's plan may be called so. */
  async function known(id: string): Promise<RunHandle | undefined> {
    const found = await got(id).catch(unlessNotFound)
    return found?.run_id === id ? found : undefined
  }

  /** Submits a run that is not known; but another may be faster. */
  const unlessFaster = (id: string, submit: () => Promise<RunHandle>): Promise<RunHandle> =>
    submit().catch(async (refusal: unknown) => {
      const faster = await known(id) // whatever it was refused for: one that is there is given
      if (!faster) throw refusal
      return faster
    })

  /** The run of that id: submitted, unless it is there. It is looked for first, since to be refused is to read its context from the beginning. */
  const once = async (id: string, submit: () => Promise<RunHandle>): Promise<RunHandle> =>
    (await known(id)) ?? unlessFaster(id, submit)

  async function submitted(checked: Flow, from: Pick<BringingIn, 'parent' | 'inherits'> = {}): Promise<RunHandle> {
    const isOurs = !mine || mine.has(checked.plan.plan_id)
    if (isOurs && (layer === options.layer || !layer.asksBudget)) refuseBudget(checked)
    const knowing = isOurs ? { lacks: left.lacks, unread: layer.unread, unfit: layer.unfit } : undefined
    const { graph, run } = await bringIn(checked, { project, clock, resolve, knowing, switched, ...from })
    if (graph.get('plan', run.data.plan_id)?.data.status === 'in_progress') await look(graph.id)
    return handle(graph, run)
  }

  async function got(id: string): Promise<RunHandle> {
    const { graph, run } = await locateRun(id, caughtUp)
    if (run.data.phase !== 'ended') await graph.load(run.group) // not there if its plan was deleted and has come back by another process
    return handle(graph, run)
  }

  const trimmed: Runtime['trim'] = async (given) => {
    const trimmed = await trim(store, { ...given, clock })
    for (const context of given.dryRun ? [] : trimmed.contexts) project.forget(context)
    return trimmed
  }
  const { keepEndedMs } = options
  const stopTrimming = keepEndedMs === undefined ? undefined : keepEnded({ keepEndedMs, trim: trimmed, clock, onError })

  const modules = registry<Module>(moduleProblem, protocolModules)
  return {
    project,
    modules,
    ended(given = {}) {
      open()
      refuseUnlessFit('ended', given, { status: oneOf(...PLAN_ENDINGS), after: text })
      return endedRuns(project, given)
    },
    ...asked,
    ...calls.counted<Pick<Runtime, 'call' | 'submit' | 'submitOnce' | 'rerun' | 'get' | 'list' | 'ingest' | 'trim'>>({
      async call(name, input, by = {}) {
        open()
        refuseUnlessFit('caller', by, { actor: text, reason: text })
        const module = modules.get(name)
        if (!module) throw new NotFound('module', name)
        const { document, graph } = await callModule(name, module, input, { project, clock }, by)
        const changed = await project.opening(graph)
        if ((await keeperOf(graph)) || dueRuns(changed, mine).length > 0) await look(graph) // a run may have waited for just that
        return document as never // of which kind, the module's name says
      },
      async submit(flow) {
        open()
        return submitted(checkedFlow(flow))
      },
      async submitOnce(flow) {
        open()
        const checked = checkedFlow(flow)
        return once(chosenRun(checked), () => submitted(checked))
      },
      async rerun(id, given = {}) {
        open()
        checkRerun(given)
        const { graph, run } = await locateRun(id)
        return once(rerunIds(run.id).run, async () => {
          const { flow, inherits } = await rerunIn(graph, run, given, clock)
          return submitted(flow, { inherits })
        })
      },
      async get(id) {
        open()
        return got(id)
      },
      async list() {
        open()
        const ids: string[] = []
        for await (const { group } of openPlans(store)) ids.push(group)
        const found = await allOf(ids, CONTEXTS_AT_ONCE, (id) => locateRun(id).catch(unlessNotFound))
        return found.flatMap((one) => (one && one.run.data.phase !== 'ended' ? [handle(one.graph, one.run)] : []))
      },
      async ingest(context, kind, event, given = {}) {
        open()
        await ingest(project, context, kind, event, given)
      },
      async trim(given) {
        open()
        return trimmed(given)
      },
    }),
    async close(signal) {
      refuseUnlessFit('close', { signal }, { signal: signalField })
      closing ??= Promise.all([
        close(hurry.signal),
        calls.ended(hurry.signal),
        stopTrimming && unlessSilent(stopTrimming(), clock),
      ])
        .then(() => undefined)
        .finally(() => closed.abort())
      if (!signal) return closing
      const forget = whenAborted(signal, hurried)
      return closing.finally(forget) // it may live on for long, and would keep the runtime
    },
  }
}
