import { realpath } from 'node:fs/promises'
import type { Adapter, ChildFlow, DeltaSource } from './ael/adapter.ts'
import { checkPlaces } from './ael/check-places.ts'
import { checkRegistering } from './ael/check-registering.ts'
import { closeInTime } from './ael/in-time.ts'
import type { ActionLayer, Blobs, Hands } from './ael/layer.ts'
import type { ToolRegistry } from './ael/tool-registry.ts'
import type { Bus } from './bus/bus.ts'
import { closeBuses } from './bus/close-buses.ts'
import { CONFIG_KEYS, type Config, type EffectiveConfig, effectiveConfig, mergedConfig } from './config.ts'
import { inConfig } from './config-check.ts'
import { adaptersOf, type Parts, toolsOf } from './configured-adapters.ts'
import { type Opening, openConfigured } from './configured-store.ts'
import { checkFolder, keptFromFlows, openProjectFolder } from './folder.ts'
import { callsUnderWay } from './orchestrator/calls.ts'
import { closeInTurn, type Part } from './orchestrator/close-in-turn.ts'
import type { RunOptions } from './orchestrator/live.ts'
import type { ProjectFolder } from './orchestrator/project-folder.ts'
import type { Relay, RelayOptions } from './orchestrator/relay.ts'
import type { RollbackOptions, RollbackReport } from './orchestrator/rollback.ts'
import type { Runtime } from './orchestrator/runtime.ts'
import type { Flow } from './orchestrator/submit.ts'
import { unlessSilent } from './orchestrator/unless-silent.ts'
import { type Clock, systemClock } from './protocol/clock.ts'
import { Closed, InvalidInput } from './protocol/errors.ts'
import {
  clock as clockField,
  type Field,
  flag,
  having,
  method,
  refuseUnlessFit,
  signal as signalField,
} from './protocol/fields.ts'
import { given } from './protocol/given.ts'
import { isObject } from './protocol/json.ts'
import { whenAborted } from './protocol/on-abort.ts'
import { type Report, reporter, sparing, TOLD_AGAIN_MS } from './protocol/reporter.ts'
import type { Project } from './psg/project.ts'
import type { Backend } from './vsl/backend.ts'
import { store as storeField } from './vsl/check-options.ts'
import { withWritesWatched } from './vsl/with-writes-watched.ts'

/** A runtime with everything it was told to have, and the parts for those who look closer. `close` ends all of it, in order, within 20 s; 10 s once in a hurry. */
export interface ComposedRuntime extends Runtime {
  readonly config: EffectiveConfig
  readonly store: Backend
  readonly buses: readonly Bus[]
  readonly tools: ToolRegistry
  /** What carries actions out. */
  readonly layer: ActionLayer
  /** The project's folder, held against the graph; `undefined` where the config names none. */
  readonly folder: ProjectFolder | undefined
  /** Takes back what a run did that has ended, by its own id, its plan's or its trace's. */
  rollback(run: string, options?: RollbackOptions): Promise<RollbackReport>
  /** Resolves once everything committed before the call is on every bus. Throws Closed when the runtime is closed before that. */
  flush(): Promise<void>
  /** How long the oldest commit that a bus does not have yet has been waiting for that, by the bus's name. */
  behindMs(): Promise<ReadonlyMap<string, number>>
  /** Throws why its store takes no writes. It is asked once a write of this runtime has failed, by one that leaves nothing behind; else this costs nothing. */
  checkWriting(): Promise<void>
}

export interface ComposeOptions extends Opening {
  readonly clock?: Clock
  /** One that is open already; it stays yours. */
  readonly store?: Backend
  /** Which runs to drive, by their plan; what is added to the set later counts. All that are in the store when absent. */
  readonly mine?: ReadonlySet<string>
  /** Hears what models asked with `stream`, and tools that give pieces, say on their way, in the process that carries the step out. Live and lossy, never stored. */
  readonly onDelta?: (delta: string, from: DeltaSource) => void
}

const OPTIONS: { readonly [O in keyof Required<ComposeOptions>]: Field } = {
  clock: clockField,
  onError: method,
  onWarning: method,
  create: flag,
  store: storeField,
  mine: having('a set of plans', 'has', 'values'),
  onDelta: method,
}

/** The two arguments are easily taken for one another. */
function refuseMisplaced(of: string, given: unknown, others: readonly string[], message: string): void {
  const misplaced = Object.keys(Object(given)).filter((name) => others.includes(name))
  if (misplaced.length > 0)
    throw new InvalidInput(
      of,
      misplaced.map((path) => ({ path, rule: 'extra_forbidden', message })),
    )
}

const DAY_MS = 86_400_000

/** Config in, members opened, runtime out: the one place that names them all. What runs plans is loaded here, so that who only looks does not wait for it. */
export async function openRuntime(config: Config = {}, options: ComposeOptions = {}): Promise<ComposedRuntime> {
  refuseMisplaced(
    'config',
    config,
    Object.keys(OPTIONS),
    'is no part of the config: give it beside it, in the second argument',
  )
  refuseMisplaced('runtime options', options, CONFIG_KEYS, 'belongs in the config, the first argument')
  refuseUnlessFit('runtime options', options, OPTIONS)
  const whole = effectiveConfig(mergedConfig(config))
  const opened: Opened = {}
  if (whole.root !== undefined) await checkFolder(whole.root, whole)
  try {
    return await composed(whole, options, opened)
  } catch (error) {
    await inTurn(partsOf(opened).map(({ close }) => close)).catch(reporter(options.onError)) // why it cannot be opened is what its caller must hear
    throw error
  }
}

/** What is closed, in this order: each may still need those behind it. */
const CLOSED = ['runtime', 'relays', 'buses', 'layer', 'folder', 'store'] as const
type Opened = { [P in (typeof CLOSED)[number]]?: Part }
const partsOf = (opened: Opened): readonly Part[] => CLOSED.flatMap((name) => opened[name] ?? [])

async function composed(whole: EffectiveConfig, options: ComposeOptions, opened: Opened): Promise<ComposedRuntime> {
  const { clock = systemClock, mine, onDelta } = options
  const onError = reporter(options.onError)
  const [project, foundProject] = later<Project>()
  const [ready, foundStore] = later<Backend>()
  const [blobs, foundBlobs] = later<Blobs>()
  // All that may be refused, or cannot be reached, comes before the store: one that was made for nothing would stay.
  const { tools, folder, adapters } = await actorsOf(whole, { project, blobs, clock, onError }, opened)
  const buses = await busesOf(whole, ready, onError)
  opened.buses = { close: () => closeBuses(buses, clock), on: 'a bus', leaves: 'buses, and their subscribers' }
  const { store, checkWriting } = withWritesWatched(options.store ?? (await openConfigured(whole, options)), clock)
  const closeStore = () => unlessSilent(store.close(), clock)
  if (!options.store) opened.store = { close: closeStore, on: 'the store', leaves: 'the store open' }
  foundStore(store)

  const { actionLayer } = await import('./ael/ael.ts')
  const { createRuntime } = await import('./orchestrator/runtime.ts')
  const { keep_ended_days, lease_ttl_ms, resolve } = whole
  let layer: ActionLayer | undefined
  const runtime = await createRuntime({
    store,
    clock,
    onError,
    layer: (hands) => {
      const { at_once, max_output_bytes } = whole.actions ?? {}
      const child: NonNullable<Hands['child']> = (flow, request) => hands.child!(withDefaults(flow, whole.run), request)
      const limits = given({ atOnce: at_once, maxOutputBytes: max_output_bytes, onDelta })
      foundBlobs(hands.blobs!)
      layer = actionLayer({ ...hands, child, clock, adapters, secrets: ownSecrets(whole), ...limits })
      opened.layer = { ...ADAPTERS, close: layer.close }
      return layer
    },
    leaseTtlMs: lease_ttl_ms,
    patrolMs: whole.patrol_ms,
    ...given({ resolve, mine, keepEndedMs: keep_ended_days && keep_ended_days * DAY_MS }),
  })
  foundProject(runtime.project)
  const hurry = new AbortController()
  const calls = callsUnderWay(clock)
  opened.runtime = {
    close: () => Promise.all([runtime.close(hurry.signal), calls.ended(hurry.signal)]),
    on: 'the store',
    leaves: 'runs to whoever takes them up when their leases are over',
  }
  if (whole.drift?.watch) await folder?.tracker()
  const relays = await relaysOf(buses, { store, clock, onError, leaseTtlMs: lease_ttl_ms })
  opened.relays = {
    close: () => Promise.all(relays.map((one) => one.close())), // behind the last that is committed here
    on: 'the store',
    leaves: 'what buses have not confirmed to be told by the next process, or once more',
  }
  let closing: Promise<void> | undefined
  return {
    ...runtime,
    config: whole,
    store,
    checkWriting,
    buses,
    tools,
    layer: layer!,
    folder,
    ...calls.counted<Pick<ComposedRuntime, 'rollback'>>({
      async rollback(id, asked) {
        const { run_id, context_id } = await runtime.get(id)
        const graph = await runtime.project.context(context_id)
        const { rollback } = await import('./orchestrator/rollback.ts')
        const files = (await folder?.known()) === graph ? { tracker: await folder!.tracker() } : {}
        return rollback({ graph, layer: layer!, ...files }, run_id, asked)
      },
    }),
    async flush() {
      const flushed = await Promise.all(relays.map((relay) => relay.flush()))
      if (flushed.includes(false)) throw new Closed('the runtime')
    },
    async behindMs() {
      return new Map(
        await Promise.all(relays.map(async (relay, i) => [buses[i]!.name, await relay.behindMs()] as const)),
      )
    },
    submit: (flow) => runtime.submit(withDefaults(flow, whole.run)),
    submitOnce: (flow) => runtime.submitOnce(withDefaults(flow, whole.run)),
    async close(signal) {
      refuseUnlessFit('close', { signal }, { signal: signalField })
      closing ??= closeInTurn(partsOf(opened), clock, hurry.signal)
      if (!signal) return closing
      const forget = whenAborted(signal, () => hurry.abort()) // also the second time, which may be in more of a hurry
      return closing.finally(forget) // it may live on for long
    },
  }
}

interface Actors {
  readonly tools: ToolRegistry
  readonly folder: ProjectFolder | undefined
  readonly adapters: readonly Adapter[]
}

/** What acts upon the world: the adapters that the config knows of and those of one's own, fit to be registered together. */
async function actorsOf(
  whole: EffectiveConfig,
  { project, blobs, clock, onError }: Around,
  opened: Opened,
): Promise<Actors> {
  const tools = await toolsOf(whole)
  const { root: named, adapters: own = [] } = whole
  const folder = named === undefined ? undefined : await openProjectFolder(named, whole, { project, clock, onError })
  if (folder) opened.folder = { close: folder.close, on: 'the folder', leaves: 'what its files have come to' }
  const root = folder?.root ?? (await realpath('.'))
  const kept = await keptFromFlows(root, whole)
  const ours = await adaptersOf(whole, { tools, blobs, clock, folder, root, kept, onError })
  const adapters = [...ours, ...own]
  const closeAll = () => inTurn(adapters.map((adapter) => () => adapter && closeInTime(adapter, clock)))
  opened.layer = { ...ADAPTERS, close: closeAll } // until a layer has them: one that was refused closes nothing
  const types = new Set(ours.map(({ action_type }) => action_type))
  for (const [i, adapter] of own.entries()) {
    inConfig(`adapters[${i}]`, () => checkRegistering(adapter, types))
    types.add(adapter.action_type)
  }
  inConfig('actions.at_once', () => checkPlaces(whole.actions?.at_once ?? {}, types))
  return { tools, folder, adapters }
}
/** What they work with; some of it is still to come. */
interface Around extends Pick<Parts, 'blobs' | 'clock' | 'onError'> {
  readonly project: Promise<Project>
}
const ADAPTERS = { on: 'an adapter', leaves: 'adapters, and what they hold' }

/** What the config says of runs holds where a flow says nothing. What is no flow is left to who looks at it. */
const withDefaults = <F extends Flow | ChildFlow>(flow: F, run: RunOptions | undefined): F =>
  run && isObject(flow) && (flow.options === undefined || isObject(flow.options))
    ? { ...flow, options: { ...run, ...given(flow.options ?? {}) } }
    : flow

/** Whoever subscribes to one before the store is there waits for it. */
async function busesOf({ bus = [] }: Config, store: Promise<Backend>, onError: Report): Promise<readonly Bus[]> {
  if (bus.length === 0) return []
  const { historyOf } = await import('./orchestrator/relay-history.ts')
  const { openBuses } = await import('./bus/bus.ts')
  return openBuses(bus, { history: (name) => historyOf(store, name), onError })
}

/** One for each bus. */
async function relaysOf(
  buses: readonly Bus[],
  parts: Pick<RelayOptions, 'store' | 'leaseTtlMs'> & { readonly clock: Clock; readonly onError: Report },
): Promise<readonly Relay[]> {
  if (buses.length === 0) return []
  const { relay } = await import('./orchestrator/relay.ts')
  const { thisHolder } = await import('./vsl/holder.ts')
  const holder = thisHolder(parts.clock.uuid())
  return buses.map(({ name, transport }) => {
    const onError = sparing(parts.onError, TOLD_AGAIN_MS, parts.clock) // it tries again every few seconds for as long as the bus is away
    return relay({ ...parts, name, transport, holder, onError })
  })
}

/** What is not there yet, and how to say that it is. */
function later<T>(): readonly [value: Promise<T>, found: (value: T) => void] {
  let found!: (value: T) => void
  const value = new Promise<T>((resolved) => {
    found = resolved
  })
  return [value, found]
}

/** One after another; a failure keeps none of the rest from being tried. */
async function inTurn(steps: readonly (() => unknown)[]): Promise<void> {
  const failures: unknown[] = []
  for (const step of steps)
    try {
      await step()
    } catch (error) {
      failures.push(error)
    }
  if (failures.length > 0) throw failures[0]
}

/** What a config holds that lets others in: a flow may read the file, and whoever may read sees its outputs. */
function ownSecrets({ server, encryption_key = [] }: Config): readonly string[] {
  return [...[encryption_key].flat(), ...(server?.tokens ?? []).map(({ token }) => token)]
}
