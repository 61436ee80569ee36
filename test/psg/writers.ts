import type { Clock } from '../../src/protocol/clock.ts'
import { RuleViolation } from '../../src/protocol/errors.ts'
import type { DecisionStatus } from '../../src/protocol/types.ts'
import type { Changes, CommitOptions } from '../../src/psg/change.ts'
import { confirmOf } from '../../src/psg/confirm.ts'
import { type GraphOptions, openGraph, type ProjectGraph } from '../../src/psg/graph.ts'
import { decide, endPlan, proposePlan, startPlan } from '../../src/psg/moves.ts'
import type { Conflict } from '../../src/psg/restore.ts'
import { children } from '../../src/psg/view.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { type Child, child } from '../support/child.ts'
import { by, contentsOf, remove } from './given.ts'

/** Changes, or what is made into changes by looking at the graph when its turn has come. */
type Asked =
  | Changes
  | { readonly what: 'propose' | 'start' | 'remove'; readonly plan: string }
  | { readonly what: 'decide'; readonly plan: string; readonly confirm: string; readonly status: DecisionStatus }
  | { readonly what: 'end'; readonly plan: string; readonly status: 'completed' | 'failed' | 'cancelled' }

/** Somebody who holds a graph, in this process or in another. Throws RuleViolation for what is refused. */
export interface Writer {
  commit(asked: Asked, options: CommitOptions): Promise<void>
  fork(plan: string, options: CommitOptions): Promise<{ readonly plan: string; readonly steps: readonly string[] }>
  snapshot(name: string): Promise<{ readonly id: string; readonly revision: number }>
  restore(options: { readonly to: string; readonly of?: string }): Promise<readonly Conflict[]>
  /** The Confirm that a plan was put up with. */
  confirmOf(plan: string): Promise<string | null>
  refresh(): Promise<void>
  reload(): Promise<void>
  /** Lets go of graph and store, and opens both anew. */
  reopen(): Promise<void>
  revision(): Promise<number>
  /** What is in memory, and of which groups. */
  contents(): Promise<{ readonly groups: readonly string[]; readonly holds: unknown }>
  close(): Promise<void>
}

/** What a writer keeps in memory, and how soon it writes values out. */
export type Room = Required<Pick<GraphOptions, 'keepEnded' | 'mostTrailing'>>
export interface WriterOptions extends Room {
  readonly clock: Clock
}

export async function localWriter(
  open: () => Promise<Backend>,
  context: string,
  options: WriterOptions,
): Promise<Writer> {
  let graph = await openGraph(await open(), context, options)
  return {
    async commit(asked, commit) {
      if ('what' in asked)
        await graph.commit(() => changesFor(graph, asked), { ...commit, reads: [['plan', asked.plan]] })
      else await graph.commit(asked, commit)
    },
    async fork(plan, commit) {
      const copy = await graph.fork(plan, commit)
      return { plan: copy.id, steps: children(graph.state, 'plan', copy.id).map((step) => step.id) }
    },
    async snapshot(name) {
      const { id, data } = await graph.snapshot(name, by)
      return { id, revision: data.revision }
    },
    restore: async (back) => (await graph.restore({ ...by, ...back })).conflicts,
    confirmOf: (plan) => graph.reading([['plan', plan]], () => confirmOf(graph, plan)?.id ?? null),
    refresh: () => graph.refresh(),
    reload: () => graph.reload(),
    async reopen() {
      await graph.store.close()
      graph = await openGraph(await open(), context, options)
    },
    revision: async () => graph.revision,
    async contents() {
      const groups = [...graph.state.groups()]
      return { groups, holds: contentsOf(graph.state) }
    },
    close: () => graph.store.close(),
  }
}

function changesFor(graph: ProjectGraph, asked: Exclude<Asked, Changes>): Changes {
  const { plan } = asked
  switch (asked.what) {
    case 'propose':
      return proposePlan(graph, plan, { requested_by_role: 'planner' })
    case 'decide':
      return decide(graph, asked.confirm, { status: asked.status, decided_by_role: 'owner' })
    case 'start':
      return startPlan(graph, plan, 'a run')
    case 'end':
      return endPlan(graph, plan, asked.status)
    case 'remove':
      return [remove('plan', plan), ...children(graph.state, 'plan', plan).map((step) => remove('step', step.id))]
    default:
      return asked satisfies never
  }
}

/** What goes to another process, a line each, and what comes back. */
export type Call = { readonly n: number; readonly method: keyof Writer | 'open'; readonly args: readonly unknown[] }
export type Reply = { readonly n: number } & (
  | { readonly value: unknown }
  | { readonly refused: readonly RuleViolation['violations'][number][] }
  | { readonly error: string }
)

/** Another process that can be a writer: one after the other, on any graph in an SQLite file. */
export interface OtherProcess {
  writer(path: string, context: string, seed: number, room: Room): Promise<Writer>
  kill(): Promise<void>
}

export function otherProcess(): OtherProcess {
  const process: Child = child(new URL('other-writer.ts', import.meta.url))
  let calls = 0
  async function call(method: Call['method'], args: readonly unknown[]): Promise<unknown> {
    const n = ++calls
    process.tell(JSON.stringify({ n, method, args } satisfies Call))
    const reply = JSON.parse(await process.line(`"n":${n},`)) as Reply
    if ('refused' in reply) throw new RuleViolation('the graph', reply.refused)
    if ('error' in reply) throw new Error(`in the other process: ${reply.error}`)
    return reply.value
  }
  const writer = Object.fromEntries(
    METHODS.map((method) => [method, (...args: unknown[]) => call(method, args)]),
  ) as unknown as Writer
  return {
    async writer(...args) {
      await call('open', args)
      return writer
    },
    kill: () => process.kill(),
  }
}

const METHODS: readonly (keyof Writer)[] = [
  'commit',
  'fork',
  'snapshot',
  'restore',
  'confirmOf',
  'refresh',
  'reload',
  'reopen',
  'revision',
  'contents',
  'close',
]
