import { type Breach, breachProblems } from '../protocol/invariants.ts'
import type { JsonObject } from '../protocol/json.ts'
import { reporter } from '../protocol/reporter.ts'
import type { Confirm } from '../protocol/types.ts'
import { FlowFailure, type ModuleHandler } from './flow.ts'
import { isOpen, isOpenToDecisions } from './flow-approval.ts'
import { printOf, withNames } from './flow-asked.ts'
import { enter, homeOf, unfit } from './flow-entry.ts'
import type { Said } from './flow-record.ts'
import { documentsIn, speak } from './flow-speech.ts'
import { isRegistry, type Registry, registry } from './registry.ts'
import type { Documents, Running } from './run-flow.ts'

/** Lets every module speak that has not spoken yet, in order, until the signal says that nobody listens. What one said is stored and in the graph before the next one speaks. */
export async function hearModules(running: Running, signal: AbortSignal): Promise<void> {
  const { record, ctx, clock, runtime, events, options } = running
  const handlers = handlersOf(options.modules)
  const report = reporter(options.onError)
  const earlier = new Set(Object.keys(record.memory.said))
  for (const { module, name, input } of speakers(running, handlers)) {
    if (module === 'confirm' && !earlier.has(name) && (await comesTooLate(running))) continue
    if (!earlier.has(name) || (module === 'confirm' && (await wantsAnswer(running)))) {
      const print = printOf(input) // before anybody can change it
      const said = await speak({ module, input, handler: handlers.get(module), ctx, clock, signal, report })
      await remember(running, module, name, { ...said, input: print })
    }
    const entering = { project: runtime.project, record, events, context: contextOf(running), again: earlier.has(name) }
    await enter(module, name, entering)
    const { output } = record.memory.said[name]!
    ctx.coordination[name] = structuredClone(documentsIn(module, output)[0] ?? output) // theirs to change, and nothing follows from it
    running.output = { ...running.output, [name]: ctx.coordination[name] }
    tellMetadata(running, { modules: Object.keys(record.memory.said) })
    await events.catchUp()
  }
}

/** The one document of each module that has one. */
export function documentsOf({ record }: Pick<Running, 'record'>): Documents {
  const found: { [module: string]: JsonObject } = {}
  for (const [name, { output }] of Object.entries(record.memory.said)) {
    const [document] = documentsIn(name, output)
    if (document) found[name] = document
  }
  return found
}

/** The context that the flow is about, as far as anybody has named one. */
export function contextOf(running: Pick<Running, 'record'>): string | undefined {
  const { context, plan } = documentsOf(running)
  return (context?.context_id ?? plan?.context_id) as string | undefined
}

/** For callers to look at while the flow runs. */
export function tellMetadata({ ctx, flow, record }: Running, facts: { readonly [key: string]: unknown }): void {
  const { flowId } = flow
  const common = { ...(flowId !== undefined && { flowId }), run_id: record.memory.ids.run }
  ctx.coordination.metadata = Object.assign(ctx.coordination.metadata ?? {}, common, facts)
}

function speakers({ flow, profile }: Running, handlers: Registry<ModuleHandler>) {
  const steps: readonly { readonly module: string; readonly input?: unknown }[] =
    flow.steps ?? profile.order.filter((module) => handlers.get(module)).map((module) => ({ module }))
  return withNames(steps)
}

/** Stored before anything follows from it. */
async function remember(running: Running, module: string, name: string, said: Said): Promise<void> {
  const { record, runtime, profile, asked } = running
  const [document] = documentsIn(module, said.output)
  if (module === 'context' && document) refuseBreaches(profile.breaches({ context: document }))
  const home = homeOf(module, document, { project: runtime.project, context: contextOf(running) })
  const graph = await home.catch((error) => {
    throw unfit(error, `what module ${module} said`)
  })
  const { ids, from, said: before } = record.memory
  const isAsked = module === 'confirm' && (await runtime.project.locate(ids.confirm)) !== undefined // by the flow, before there was such a module
  await record.keep({
    said: { ...before, [name]: said },
    from: { [graph.id]: graph.revision, ...from },
    asked,
    ids: {
      ...ids,
      ...(module === 'confirm' && { decision: running.clock.uuid() }), // whoever is asked again decides again
      ...(module === 'trace' && document && { trace: document.trace_id as string }),
      ...(module === 'confirm' &&
        document &&
        !isAsked &&
        before.confirm === undefined && { confirm: document.confirm_id as string }),
    },
  })
}

/** Of a module that came to the flow after its plan was submitted: has the flow had its answer without it? */
async function comesTooLate(running: Running): Promise<boolean> {
  const stands = await confirmThere(running)
  return stands !== undefined && !isOpenToDecisions(stands)
}

/** Whoever was asked and did not answer, or said no, is asked again by the next call. */
async function wantsAnswer(running: Running): Promise<boolean> {
  const { confirm } = documentsOf(running)
  if (!confirm) return false
  return isOpen(confirm as unknown as Confirm, await confirmThere(running), running.record.memory)
}

async function confirmThere({ record, runtime: { project } }: Running): Promise<Confirm | undefined> {
  const { confirm } = record.memory.ids
  const where = await project.locate(confirm)
  return where && (await project.context(where.graph)).document('confirm', confirm)
}

export function refuseBreaches(breaches: readonly Breach[]): void {
  const [first] = breaches
  if (!first) return
  throw new FlowFailure('INVARIANT_BROKEN', `${first.id}: ${first.path} ${first.message}`, {
    problems: breachProblems(breaches),
  })
}

const handlersOf = (modules: Running['options']['modules']): Registry<ModuleHandler> =>
  isRegistry(modules)
    ? modules
    : registry<ModuleHandler>((handler) => (typeof handler === 'function' ? undefined : 'must be a function'), modules)
