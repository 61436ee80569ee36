import { newAction } from '../../src/ael/action.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import { scriptedProvider } from '../../src/ael/llm.ts'
import { toolRegistry } from '../../src/ael/tool.ts'
import { outcomeCache } from '../../src/ael/with-cache.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { tempFolder } from '../support/temp-folder.ts'
import {
  anything,
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
  saying,
} from './doors.ts'

const adapter = functionAdapter({ noop: () => null })
const action = newAction({ action_type: 'function', params: { name: 'noop' } })
const tool = { name: 'a.b', description: 'c', input: { type: 'object' }, execute: () => null }
const { signal } = new AbortController()

const INSIDE = 'is called by the layer, with what it has looked at itself'
const ERROR = 'makes an error: one that refuses to be made would hide what it was made for'
const REGISTERED = 'the tool as it was registered'

const LAYER: Doors = {
  execute: door(given(action), open()),
  attempt: door(given(action), open()),
  check: door(given(action), open()),
  executorOf: 'asks who carries out actions of a type: of what is no type nobody does',
  lacks: door(given(action)),
  unread: door(given(action)),
  unfit: door(given(action)),
  label: door(given(action)),
  readOnly: door(given(action)),
  estimate: door(given(action)),
  found: door(given(action)),
  inverse: door(given(action), given({}, 'object')),
  register: door(given(functionAdapter({}, { action_type: 'other' }))),
  unregister: door(given('other')),
  close: bare,
}
const TOOLS: Doors = {
  register: door(given(tool)),
  find: 'asks whether there is a tool of that name: of what is no name there is none',
  get: making(REGISTERED, given('a.b')),
  list: door(given('a', 'nothing', 'text')),
  unregister: door(given('a.b')),
}
const PROVIDER: Doors = { model: making('a model of a library', name('m')), secrets: bare }
const vendor = making(PROVIDER, options({ apiKey: 'k' }))
const decorator = making(INSIDE, given(adapter), options())

export const [ANY_LAYER, ANY_TOOLS] = [elsewhere(LAYER), elsewhere(TOOLS)]

export const ael: { readonly [entry: string]: Doors } = {
  './ael': {
    aborted: door(name('a'), given(signal)),
    actionLayer: making(LAYER, options({ adapters: [adapter] })),
    approvalDigest: door(name('a.b'), json({}), open()),
    denied: ERROR,
    finalFailure: ERROR,
    fromLayer: making(INSIDE, name('a'), given({ execute: async () => ({}) }), given('tool', 'nothing')),
    memoryBudget: making({ reserve: INSIDE, settle: INSIDE, release: INSIDE, remaining: bare }, saying({ actions: 1 })),
    newAction: door(given({ action_type: 'a', params: {} }), given(systemClock, 'nothing')),
    nextRetry: door(
      given({ strategy: 'fixed', max_attempts: 2 }, 'nothing'),
      given(1, 'number'),
      given({ retryable: true }),
      given(0),
    ),
    observerFrom: making(
      { started: INSIDE, ended: INSIDE },
      given(() => undefined),
    ),
    outcomeCache: making({ get: INSIDE, set: INSIDE, accepts: INSIDE }, saying({ ttlMs: 1 })),
    passingFailure: ERROR,
    redactor: making(
      { text: door(name('a')), json: door(anything({})), error: door(anything(0)) },
      given(() => [], 'nothing'),
    ),
    storable: door(given({}, 'object')),
    withAdmission: decorator,
    withCache: making(INSIDE, given(adapter), given(outcomeCache({ ttlMs: 1 }))),
    withObserve: decorator,
    withOutputs: decorator,
    withRetry: decorator,
    withTimeout: decorator,
  },
  './ael/file': { fileAdapter: making(INSIDE, saying({ root: tempFolder() })) },
  './ael/function': { functionAdapter: making(INSIDE, given({}, 'object'), options()) },
  './ael/handoff': { handoffAdapter: making(INSIDE, saying({ hand: async () => null })) },
  './ael/http': { httpAdapter: making(INSIDE, options()) },
  './ael/llm': {
    anthropicProvider: vendor,
    compatibleProvider: making(PROVIDER, saying({ baseUrl: 'http://127.0.0.1:1', name: 'a' })),
    googleProvider: vendor,
    llmAdapter: making(INSIDE, saying({ providers: { a: scriptedProvider([]) } })),
    openAiProvider: vendor,
    // What is no reply is told in its turn, by what then fails.
    scriptedProvider: making(PROVIDER, given([], 'list', 'list of null', 'object'), options()),
  },
  './ael/mcp': { mcpAdapter: making(INSIDE, saying({ servers: {}, tools: toolRegistry() })) },
  './ael/tool': {
    compileSchema: making({ problems: door(anything({})) }, given({ type: 'object' }, 'object'), name('a')),
    toolAdapter: making(INSIDE, given(toolRegistry()), options()),
    toolRegistry: making(TOOLS, given([], 'nothing', 'list')),
    undoing: door(given(action), given({}, 'object'), given(systemClock)),
  },
}
