// A flow whose steps are a tool, a model and a tool again; each step gets what the one before it gave. The model is scripted, so that this runs
// without a key. For a real one: openAiProvider({ apiKey: () => process.env.OPENAI_API_KEY }).
// npx tsx examples/llm-flow.ts
import { actionLayer } from '../src/ael/ael.ts'
import { llmAdapter } from '../src/ael/llm.ts'
import { scriptedProvider } from '../src/ael/llm-scripted.ts'
import { toolAdapter } from '../src/ael/tool.ts'
import { toolRegistry } from '../src/ael/tool-registry.ts'
import type { Bindings } from '../src/orchestrator/bind.ts'
import { InMemoryVSL } from '../src/orchestrator/in-memory.ts'
import { protocolHandlers } from '../src/orchestrator/modules/handlers.ts'
import { runSingleAgentFlow } from '../src/orchestrator/single-agent.ts'
import { systemClock } from '../src/protocol/clock.ts'
import type { Json } from '../src/protocol/json.ts'
import type { Plan } from '../src/protocol/types.ts'

const letters: string[] = []
const text = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] }
const tools = toolRegistry([
  {
    name: 'figures.read',
    description: 'The figures of the last quarter',
    readOnly: true,
    input: { type: 'object' },
    execute: () => ({ sold: 1200, summary: '1200 pairs sold, 30 returned' }),
  },
  {
    name: 'letter.send',
    description: 'Sends a letter to the board',
    input: text,
    effect: 'reversible',
    inverse: (args) => ({ tool_name: 'letter.recall', tool_args: args }),
    execute: ({ text }) => ({ letters: letters.push(String(text)) }),
  },
])
const writer = scriptedProvider(({ messages }) => `Dear board: ${messages.at(-1)!.text}.`)

const [read, write, send] = [systemClock.uuid(), systemClock.uuid(), systemClock.uuid()]
const from = (step: string, path: string): Json => ({ $from: step, path })
const bindings: Bindings = {
  steps: {
    [read]: { action_type: 'tool_call', params: { tool_name: 'figures.read', tool_args: {} } },
    [write]: {
      action_type: 'llm_call',
      params: { model: 'writer', messages: [{ role: 'user', content: from(read, 'summary') }] },
      retry: { strategy: 'exponential', max_attempts: 3, delay_ms: 200 },
    },
    [send]: {
      action_type: 'tool_call',
      params: { tool_name: 'letter.send', tool_args: { text: from(write, 'text') } },
    },
  },
}

const { success, output, error, events } = await runSingleAgentFlow({
  flow: {
    bindings,
    options: { budget: { tokens: 5_000 } },
    steps: [
      { module: 'context', input: { title: 'Quarter', root: { domain: 'reports', environment: 'demo' } } },
      {
        module: 'plan',
        input: {
          title: 'Tell the board',
          objective: 'A letter with the figures',
          steps: [
            { step_id: read, description: 'read the figures' },
            { step_id: write, description: 'write the letter', dependencies: [read], agent_role: 'writer' },
            { step_id: send, description: 'send the letter', dependencies: [write] },
          ],
        },
      },
    ],
  },
  runtimeContext: { ids: { runId: 'letter-1' }, coordination: {}, events: [] },
  modules: protocolHandlers(),
  vsl: new InMemoryVSL(),
  ael: (hands) =>
    actionLayer({ ...hands, adapters: [llmAdapter({ providers: { scripted: writer }, tools }), toolAdapter(tools)] }),
})

if (!success) console.log(`${error?.code}: ${error?.message}`)
for (const { description, status } of (output!.plan as Plan).steps) console.log(`${description}: ${status}`)
console.log(`sent: ${letters.join()}`)
const spoken = (events as { event_type: string }[]).filter(({ event_type }) => event_type.startsWith('SA'))
console.log(spoken.map(({ event_type }) => event_type).join(' '))
