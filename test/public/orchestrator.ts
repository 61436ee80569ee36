import { actionLayer } from '../../src/ael/ael.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import { memoryTransport } from '../../src/bus/memory.ts'
import { openRuntime } from '../../src/compose.ts'
import { InMemoryVSL } from '../../src/orchestrator/in-memory.ts'
import { modes } from '../../src/orchestrator/modes/modes.ts'
import { moduleProblem } from '../../src/orchestrator/modules/module.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { full } from '../protocol/samples.ts'
import { call, collabDocument, contextDocument, planDocument, saying } from '../support/agents.ts'
import { flowOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { ANY_LAYER, ANY_TOOLS } from './ael.ts'
import {
  type Argument,
  saying as asked,
  bare,
  type Doors,
  door,
  elsewhere,
  given,
  json,
  making,
  name,
  open,
  options,
} from './doors.ts'
import { ANY_TRACKER } from './drift.ts'
import { ANY_GRAPH, ANY_PROJECT } from './psg.ts'
import { SOURCE, STORE } from './vsl.ts'

const UNKNOWN = 'asks whether there is something of that name: of what is no name there is nothing'
const signal = given(undefined, 'nothing')

const HANDLE: Doors = {
  result: { ...door(signal), unreached: true }, // it waits for a person
  rest: door(signal),
  events: door(options()),
  cancel: bare,
}
const MODULES: Doors = { load: door(name('mine'), given({ intents: {} })), unload: UNKNOWN, get: UNKNOWN }

const named = { title: 'a', steps: { a: { action_type: 'function', params: { name: 'noop' } } } }

/** A plan that waits for a decision, in a runtime of its own. */
function runtime(more: (plan: Argument) => Doors = () => ({})): Doors {
  const confirm = systemClock.uuid()
  const go = { binding: { action_type: 'wait', params: { signal: 'go' } } }
  const flow = flowOf({ noop: {}, go }, { approval: { needed: 1 }, chosen: { confirm } })
  const plan = given(flow.plan.plan_id)
  const again = flowOf({ noop: {} }, { approval: { needed: 1 }, chosen: { run: systemClock.uuid() } })
  return {
    submit: making(HANDLE, asked(flow)),
    submitOnce: making(elsewhere(HANDLE), asked(again)),
    get: making(elsewhere(HANDLE), plan),
    list: bare,
    ended: door(options()),
    waiting: door(options()),
    signal: door(plan, name('go'), given(null, 'nothing', 'null', 'number', 'text', 'list', 'list of null', 'object')),
    decide: door(given(confirm), asked({ status: 'rejected', decided_by_role: 'lead' })),
    propose: door(plan, options()),
    cancel: door(plan),
    rerun: making(elsewhere(HANDLE), plan, options()), // of what was cancelled
    trim: door(asked({ before: '2026-01-01T00:00:00Z' })),
    pause: door(plan),
    resume: door(plan),
    ingest: door(given(flow.plan.context_id), given('git-event'), given(full('git-event')), options()),
    call: door(
      given('context'),
      given({ intent: 'create', title: 'a', root: { domain: 'a', environment: 'b' } }),
      options(),
    ),
    project: { members: ANY_PROJECT },
    modules: { members: MODULES },
    close: { ...door(signal), unreached: true }, // or what is tried after it would find it closed
    ...more(plan),
  }
}

const board = given({
  seats: [],
  coordinator: { participant_id: 'a', role_id: 'b', names: [] },
  open: [],
  ended: [],
  ready: [],
})
const context = contextDocument()
const plan = planDocument(context, { work: {} })
const collab = collabDocument(context, 'broadcast', ['ann:planner'])
const layer = actionLayer({ adapters: [functionAdapter({ noop: () => null })] })
const relaying = { store: memoryBackend(), transport: memoryTransport(), name: 'r', holder: thisHolder('a') }
const FLOW = 'is called by a flow, with what it has checked'

export const orchestrator: Doors = {
  createRuntime: making(runtime(), asked({ store: memoryBackend(), layer })),
  InMemoryAEL: making({
    execute: 'says what it was given, whatever that is',
    executeAction: door(given({ module: 'a', input: 1 }, 'object')),
  }),
  InMemoryVSL: making({
    get: UNKNOWN,
    set: door(name('a'), json(1)),
    saveSnapshot: door(name('a'), json(1)),
    loadSnapshot: UNKNOWN,
    appendEvents: door(name('a'), given([], 'list', 'list of null')),
    getEvents: UNKNOWN,
  }),
  flowOf: door(asked(named), given(systemClock, 'nothing')),
  mapBreaches: door(given({}, 'object'), given(new Set(), 'nothing')),
  modes: { members: Object.fromEntries(Object.keys(modes).map((mode) => [mode, door(board)])) },
  protocolHandlers: making(FLOW, options()),
  protocolModules: 'are called by the runtime, with what it has checked',
  registry: making(MODULES, given(moduleProblem), open()),
  relay: making({ flush: door(signal), behindMs: bare, close: bare }, asked(relaying)),
  runMultiAgentFlow: door(asked(call(new InMemoryVSL(), saying({ context, plan, collab })))),
  runSingleAgentFlow: door(asked(call(new InMemoryVSL(), saying({ context, plan })))),
  saBreaches: door(given({}, 'object'), given(new Set(), 'nothing')),
  trim: door(given(memoryBackend()), asked({ before: '2026-01-01T00:00:00Z' })),
  withoutEnded: making(SOURCE, given(memoryBackend()), asked({ before: '2026-01-01T00:00:00Z' })),
}

const served = await openRuntime({ vsl: 'memory:' })
export const close = () => served.close()
export const server: Doors = { serve: making({ close: bare }, given(served), options({ port: 0 })) }

const SAME = 'is that of ./orchestrator'
const FILES = 'is called by the adapter for files, with what it has checked'
export const root: Doors = {
  createRuntime: SAME,
  flowOf: SAME,
  InMemoryAEL: SAME,
  InMemoryVSL: SAME,
  runMultiAgentFlow: SAME,
  runSingleAgentFlow: SAME,
  defineConfig: 'gives a config its types; openRuntime looks at what it says',
  openRuntime: making(
    runtime((plan) => ({
      config: 'is what was opened',
      store: { members: STORE },
      tools: { members: ANY_TOOLS },
      layer: { members: ANY_LAYER },
      folder: {
        members: {
          known: bare,
          scan: door(options()), // before the tracker, which is closed when it has been tried
          graph: making(ANY_GRAPH),
          tracker: making(ANY_TRACKER),
          findings: bare,
          tracked: FILES,
          staleCheck: FILES,
          mayWrite: FILES,
          close: bare,
        },
      },
      rollback: door(plan, options()),
      flush: bare,
      behindMs: bare,
      checkWriting: bare,
    })),
    options({ vsl: 'memory:', root: tempFolder(), functions: { noop: () => null } }),
    options(),
  ),
}
