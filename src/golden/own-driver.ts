import type { Adapter, Call } from '../ael/adapter.ts'
import { actionLayer } from '../ael/ael.ts'
import { functionAdapter } from '../ael/function.ts'
import type { RunHandle } from '../orchestrator/run.ts'
import { createRuntime, type Runtime } from '../orchestrator/runtime.ts'
import type { Flow } from '../orchestrator/submit.ts'
import { type Clock, manualClock, systemClock } from '../protocol/clock.ts'
import { ActionError, InvalidInput, MplpError, RuleViolation } from '../protocol/errors.ts'
import type { Json, JsonObject } from '../protocol/json.ts'
import type { Change, EntryBody, Kind } from '../psg/change.ts'
import { type DocumentKind, takeApart } from '../psg/document.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import type { Project } from '../psg/project.ts'
import type { Backend } from '../vsl/backend.ts'
import type { Answer, Answers, Driver, FlowChange, Outcome, Session } from './driver.ts'

export interface OwnDriverOptions {
  /** A fresh store of that kind, and how to be rid of it. */
  readonly open: (backend: string) => Promise<FreshStore>
  /** Rules, arrows and events that are switched over, for the proof that flows notice. */
  readonly switched?: ReadonlySet<string>
}

export interface FreshStore {
  readonly store: Backend
  /** The same store as another process would open it; the one there is left as a killed process leaves it. */
  readonly reopen: () => Promise<Backend>
  readonly dispose: () => Promise<void>
}

const BY = { actor: 'golden', reason: 'a golden flow' }

/** This very runtime as a driver. */
export function ownDriver(options: OwnDriverOptions): Driver {
  return {
    name: 'mplp-runtime',
    capabilities: ['conformance', 'execution', 'approval', 'recovery', 'rollback'],
    async open({ backend, seed, answers }) {
      const fresh = await options.open(backend)
      return session(fresh, seededClock(seed), answers, options.switched)
    },
  }
}

/** Real time, but ids and luck from the seed. */
function seededClock(seed: number): Clock {
  const { uuid, random } = manualClock({ seed })
  return { ...systemClock, uuid, random }
}

async function session(
  fresh: FreshStore,
  clock: Clock,
  answers: Answers,
  switched?: ReadonlySet<string>,
): Promise<Session> {
  const taken = new Map<string, number>()
  let store = fresh.store
  let dead = new AbortController()
  let runtime = await begin()
  let project: Project = runtime.project
  let context: string | undefined
  let run: RunHandle | undefined
  const errors: unknown[] = []

  function begin(): Promise<Runtime> {
    const mine = dead.signal
    const layer = actionLayer({ clock, adapters: [scripted(answers, taken, mine)] })
    return createRuntime({
      store: mortal(store, mine),
      layer,
      clock,
      quietMs: 5,
      patrolMs: 20,
      leaseTtlMs: 2_000,
      onError: (error) => mine.aborted || errors.push(error),
      ...(switched && { switched }),
    })
  }
  const graph = async (): Promise<ProjectGraph> => {
    if (context === undefined)
      throw new InvalidInput('golden flow', [{ path: '', rule: 'order', message: 'nothing is loaded yet' }])
    const found = await project.context(context)
    await found.refresh()
    return found
  }

  return {
    load: (documents) =>
      outcomeOf(async () => {
        const { graph: loaded } = await project.import(documents, BY)
        context = loaded.id
      }),
    change: (change) =>
      outcomeOf(async () => (isProject(change) ? project.graph : await graph()).commit(changesOf(change), BY)),
    submit: (flow) =>
      outcomeOf(async () => {
        run = await runtime.submit(flow as unknown as Flow)
        context = run.context_id
      }),
    async settle() {
      return run ? run.rest() : 'ended'
    },
    decide: (decision) =>
      outcomeOf(async () => {
        const [question] = await runtime.waiting()
        if (!question)
          throw new InvalidInput('decision', [{ path: '', rule: 'waiting', message: 'nothing waits for a decision' }])
        await runtime.decide(question.confirm.confirm_id, decision as never)
      }),
    propose: () => outcomeOf(async () => runtime.propose(run!.plan_id)),
    cancel: () => outcomeOf(async () => run!.cancel()),
    signal: (name, payload) => outcomeOf(async () => runtime.signal(run!.plan_id, name, payload)),
    async crash() {
      dead.abort()
      store = await fresh.reopen()
      dead = new AbortController()
      runtime = await begin()
      project = runtime.project
      if (run) run = await runtime.get(run.plan_id)
    },
    rollback: () => outcomeOf(async () => (await graph()).restore({ ...BY, to: 1, of: run!.run_id })),
    async documents(kind) {
      const home = kind === 'role' || kind === 'core' ? project.graph : await graph()
      for await (const [key, where] of store.scan(`id/${kind}/`)) {
        const { graph: of, group } = where as { graph: string; group: string }
        if (of === home.id && key) await home.load(group)
      }
      const ids = [...home.state.nodes()]
        .filter((node) => node.kind === kind)
        .sort((a, b) => a.born - b.born || (a.id < b.id ? -1 : 1))
      return Promise.all(ids.map((node) => home.document(kind, node.id) as Promise<Json>))
    },
    async events() {
      const told: JsonObject[] = []
      for await (const entry of store.feed())
        for (const { event } of (entry.body as unknown as EntryBody).events ?? []) told.push(event)
      return told
    },
    async verify() {
      const findings = [
        ...(await project.graph.verify()),
        ...(context === undefined ? [] : await (await graph()).verify()),
      ]
      return [...findings.map(({ message }) => message), ...errors.map(String)]
    },
    async close() {
      await runtime.close()
      await fresh.dispose()
    },
  }
}

/** Roles and core live in the project's own graph. */
const isProject = (change: FlowChange): boolean =>
  Object.values(change).some(({ kind }: { kind?: string }) => kind === 'role' || kind === 'core')

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

function changesOf(change: FlowChange): readonly Change[] {
  if ('move' in change)
    return [
      {
        kind: 'node_update',
        node: change.move.kind as Kind,
        id: change.move.id,
        set: { status: change.move.to },
      } as Change,
    ]
  if ('edit' in change)
    return [{ kind: 'node_update', node: change.edit.kind as Kind, id: change.edit.id, set: change.edit.set } as Change]
  if ('remove' in change) return [{ kind: 'node_delete', node: change.remove.kind as Kind, id: change.remove.id }]
  if ('depend' in change) return [{ kind: 'edge_add', from: change.depend.from, to: change.depend.to }]
  const { kind, document, owner } = change.add
  if (owner === undefined) return takeApart(kind as DocumentKind, document)
  const id = Object.entries(document as JsonObject).find(
    ([name]) => name === `${kind}_id` || name === `${kind.replace('_end', '')}_id`,
  )?.[1]
  return [
    {
      kind: 'node_add',
      node: kind as Kind,
      id: typeof id === 'string' ? id : `${owner}/99`,
      owner,
      at: 99,
      data: document,
    } as unknown as Change,
  ]
}

/** Functions and anything else a step may be bound to: all take their answers from the script. */
function scripted(answers: Answers, taken: Map<string, number>, dead: AbortSignal): Adapter {
  const answer = async (name: string, call: Call): Promise<Json | undefined> => {
    const list = answers[name] ?? []
    const n = taken.get(name) ?? 0
    taken.set(name, n + 1)
    return given(list[Math.min(n, list.length - 1)], call, dead)
  }
  return {
    ...functionAdapter({}),
    action_type: '*',
    check: () => undefined,
    readOnly: () => false,
    execute: async (action, call) => {
      const name = String(action.params.name ?? action.params.tool_name ?? action.action_type)
      const output = await answer(name, call)
      return output === undefined ? {} : { output }
    },
  }
}

async function given(answer: Answer | undefined, { signal }: Call, dead: AbortSignal): Promise<Json | undefined> {
  if (answer === undefined) return null
  if ('output' in answer) return answer.output
  if ('error' in answer) throw new ActionError('action_failed', answer.error, { retryable: answer.retryable ?? false })
  return new Promise((_, reject) => {
    for (const end of [signal, dead]) end.addEventListener('abort', () => reject(end.reason), { once: true })
  })
}

/** A store as a process has it that may die: from then on nothing is answered. */
function mortal(store: Backend, dead: AbortSignal): Backend {
  return new Proxy(store, {
    get(target, name) {
      const value = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => (dead.aborted ? new Promise(() => undefined) : value.apply(target, args))
    },
  })
}
