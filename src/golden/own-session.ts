import { fileId } from '../drift/compare.ts'
import { rollback } from '../orchestrator/rollback.ts'
import type { RunHandle } from '../orchestrator/run.ts'
import type { Flow } from '../orchestrator/submit.ts'
import type { Clock } from '../protocol/clock.ts'
import { InvalidInput, MplpError, Refused, RuleViolation } from '../protocol/errors.ts'
import type { Json, JsonObject } from '../protocol/json.ts'
import type { Change } from '../psg/change.ts'
import type { DocumentKind } from '../psg/document.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { eventsIn } from '../psg/told.ts'
import type { Backend } from '../vsl/backend.ts'
import type { Outcome, Session } from './driver.ts'
import { ownBreaches } from './own-breaches.ts'
import { changesOf, isOfProject } from './own-changes.ts'
import type { Folder } from './own-folder.ts'
import { type OwnProcess, startProcess } from './own-process.ts'
import type { Script } from './scripted.ts'

export interface OwnSession {
  readonly open: () => Promise<Backend>
  readonly dispose: () => Promise<void>
  readonly clock: Clock
  readonly script: Script
  readonly folder?: Folder
  readonly switched?: ReadonlySet<string>
}

const BY = { actor: 'golden', reason: 'a golden flow' }

/** This runtime while a flow runs on it. */
export async function ownSession(options: OwnSession): Promise<Session> {
  const { folder, switched, script } = options
  const errors: unknown[] = []
  let stuck: Promise<unknown> | undefined
  const expectStuck = () => {
    stuck = new Promise((resolve) => script.stuck.addEventListener('stuck', resolve, { once: true }))
  }
  const start = (store: Backend) => {
    expectStuck()
    return startProcess(store, { ...options, onError: (error) => errors.push(error) })
  }
  let process = await start(await options.open())
  let frozen: { readonly process: OwnProcess; readonly run: RunHandle | undefined } | undefined
  let context: string | undefined
  let run: RunHandle | undefined

  const graph = async (): Promise<ProjectGraph> => {
    if (context === undefined) throw outOfOrder('has loaded nothing yet')
    const found = await process.runtime.project.context(context)
    await found.refresh()
    return found
  }
  const onDisk = (): Folder => {
    if (!folder) throw outOfOrder('has no files')
    return folder
  }
  const tracker = async () => process.track(await graph(), onDisk().root)
  const running = (): RunHandle => {
    if (!run) throw outOfOrder('has submitted nothing')
    return run
  }
  const goOnWith = async (next: OwnProcess) => {
    process = next
    if (run) run = await next.runtime.get(run.plan_id)
    if (folder && context !== undefined) await tracker()
  }

  const documents = async (kind: DocumentKind): Promise<readonly Json[]> => {
    const isOfNoContext = kind === 'role' || kind === 'core'
    if (!isOfNoContext && context === undefined) return []
    const home = isOfNoContext ? process.runtime.project.graph : await graph()
    await home.refresh()
    for await (const [, where] of process.handle.scan(`id/${kind}/`)) {
      const { graph: of, group } = where as { graph: string; group: string }
      if (of === home.id) await home.load(group)
    }
    const nodes = [...home.state.nodes()]
      .filter((node) => node.kind === kind)
      .sort((a, b) => a.born - b.born || (a.id < b.id ? -1 : 1))
    return Promise.all(nodes.map((node) => home.document(kind, node.id) as Promise<Json>))
  }
  const events = async (): Promise<readonly JsonObject[]> => {
    const told: JsonObject[] = []
    for await (const entry of process.handle.feed()) for (const { event } of eventsIn(entry)) told.push(event)
    return told
  }

  return {
    documents,
    events,
    load: (given) =>
      outcomeOf(async () => {
        const { graph: loaded } = await process.runtime.project.import(given, {
          ...BY,
          ...(context !== undefined && { context }),
        })
        context = loaded.id
        if (folder) await tracker()
      }),
    change: (change) =>
      outcomeOf(async () =>
        (isOfProject(change) ? process.runtime.project.graph : await graph()).commit(changesOf(change), BY),
      ),
    submit: (flow) =>
      outcomeOf(async () => {
        expectStuck()
        run = await process.runtime.submit(flow as unknown as Flow)
        context = run.context_id
      }),
    async underway() {
      await Promise.race([run?.rest(), stuck])
    },
    settle: async () => (run ? run.rest() : 'ended'),
    decide: (decision) =>
      outcomeOf(async () => {
        const [question] = await process.runtime.waiting()
        if (!question) throw outOfOrder('has nothing that waits for a decision')
        await process.runtime.decide(question.confirm.confirm_id, decision as never)
        await process.acted(question.confirm.confirm_id)
      }),
    propose: () => outcomeOf(async () => process.runtime.propose(running().plan_id)),
    cancel: () => outcomeOf(async () => running().cancel()),
    signal: (name, payload) => outcomeOf(async () => process.runtime.signal(running().plan_id, name, payload)),
    async crash() {
      await process.kill()
      await goOnWith(await start(await options.open()))
    },
    async freeze() {
      if (frozen) throw outOfOrder('has frozen a process already')
      const { handle } = process
      frozen = { process, run }
      await process.hold()
      const shared = handle.traits.processes === 'one' // two owners in one process: nobody else may open such a store
      await goOnWith(await start(shared ? { ...handle, close: async () => undefined } : await options.open()))
    },
    async thaw() {
      frozen?.process.letGo()
      await frozen?.run?.rest() // what it still had in hand has come to something, or to nothing
    },
    rollback: () =>
      outcomeOf(async () => {
        const tracked = folder && (await tracker())
        const parts = { graph: await graph(), layer: process.layer, ...(tracked && { tracker: tracked }) }
        const { status, left, plan } = await rollback(parts, running().run_id)
        const kept = status === 'nothing' ? plan.conflicts : left
        if (kept.length > 0) throw new Refused(kept.map(({ name, reason }) => `${name}: ${reason}`).join('; '), '')
      }),
    snapshot: (name) => outcomeOf(async () => (await graph()).snapshot(name, BY)),
    restore: (name) =>
      outcomeOf(async () => {
        const { conflicts } = await (await graph()).restore({ ...BY, to: name })
        if (conflicts.length > 0) throw new Refused(conflicts.map(({ message }) => message).join('; '), '')
      }),
    breaches: () => ownBreaches({ documents, events }, switched),
    disk: async (changes) => onDisk().put(changes),
    files: async () => onDisk().all(),
    want: (wanted) =>
      outcomeOf(async () => {
        const changes: Change[] = []
        for (const [path, text] of Object.entries(wanted)) {
          const digest = await process.handle.putBlob(new TextEncoder().encode(text))
          changes.push({ kind: 'node_update', node: 'file', id: fileId(path), set: { digest } })
        }
        await (await graph()).commit(changes, BY)
      }),
    scan: async () => (await (await tracker()).scan()).findings.map(({ what, path }) => ({ what, path })),
    reconcile: (strategy) =>
      outcomeOf(async () => {
        const settled = await (await tracker()).reconcile('all', strategy as never, BY)
        const left = settled.filter(({ outcome }) => outcome === 'failed' || outcome === 'refused')
        if (left.length > 0) throw new Refused(left.map(({ finding }) => `${finding.path} is left`).join('; '), '')
      }),
    async verify() {
      const found = await process.runtime.project.graph.verify()
      const inContext = context === undefined ? [] : await (await graph()).verify()
      return [...[...found, ...inContext].map(({ message }) => message), ...errors.map(String)]
    },
    async close() {
      await process.kill()
      await frozen?.process.kill()
      await options.dispose()
      await folder?.remove()
    },
  }
}

async function outcomeOf(work: () => Promise<unknown>): Promise<Outcome> {
  try {
    await work()
    return { ok: true }
  } catch (error) {
    if (error instanceof RuleViolation)
      return { ok: false, rules: error.violations.map((violation) => violation.rule), message: error.message }
    if (error instanceof InvalidInput)
      return { ok: false, rules: ['schema', ...error.problems.map((problem) => problem.rule)], message: error.message }
    if (error instanceof MplpError) return { ok: false, rules: [error.code], message: error.message }
    throw error
  }
}

const outOfOrder = (message: string): InvalidInput =>
  new InvalidInput('golden flow', [{ path: '', rule: 'order', message }])
