// A model that looks things up and acts: each tool it chooses is an action that passes admission, and writing is asked about.
// The model is scripted, so that this runs without a key. For a real one: openAiProvider({ apiKey: () => process.env.OPENAI_API_KEY }).
// npx tsx examples/llm-tool-loop.ts
import { newAction } from '../src/ael/action.ts'
import { actionLayer } from '../src/ael/ael.ts'
import { llmAdapter } from '../src/ael/llm.ts'
import { scriptedProvider } from '../src/ael/llm-scripted.ts'
import { memoryBudget } from '../src/ael/memory-budget.ts'
import { toolAdapter } from '../src/ael/tool.ts'
import { toolRegistry } from '../src/ael/tool-registry.ts'

const sky: Readonly<Record<string, string>> = { Oslo: 'snow', Rome: 'sun' }
const diary: string[] = []

const tools = toolRegistry([
  {
    name: 'weather.look',
    description: 'What the sky over a city is like now',
    readOnly: true, // so that several run side by side, and answers may be cached
    input: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    execute: ({ city }) => ({ city: String(city), sky: sky[String(city)] ?? 'unknown' }),
  },
  {
    name: 'diary.write',
    description: 'Writes a line into the diary',
    policy: 'ask',
    requestApproval: ({ line }) => `Write "${line}" into the diary?`,
    input: { type: 'object', properties: { line: { type: 'string' } }, required: ['line'] },
    effect: 'reversible',
    inverse: ({ line }) => ({ tool_name: 'diary.erase', tool_args: { line: line ?? '' } }),
    execute: ({ line }) => ({ lines: diary.push(String(line)) }),
  },
])

const model = scriptedProvider([
  {
    reasoning: 'I need both cities before I can compare.',
    tool_calls: [
      { tool: 'weather.look', args: { city: 'Oslo' } },
      { tool: 'weather.look', args: { city: 'Rome' } },
    ],
  },
  { tool_calls: [{ tool: 'diary.write', args: { line: 'Oslo has snow, Rome has sun.' } }] },
  'Oslo has snow and Rome has sun. I noted it in your diary.',
])

const layer = actionLayer({
  adapters: [llmAdapter({ providers: { scripted: model }, tools }), toolAdapter(tools)],
  budget: memoryBudget({ tokens: 20_000 }),
  admit: ({ tool, role }) =>
    role === 'assistant' ? { allowed: true } : { allowed: false, reason: `${role ?? 'nobody'} may not use ${tool}` },
  // In a run, a Confirm is made of the question and the plan waits for it; here, somebody says yes.
  gate: ({ description, digest }) => {
    console.log(`  asked: ${description} (${digest.slice(0, 15)}…)`)
    return { verdict: 'approved', decided_by: 'you' }
  },
  emit: ({ event_type, payload }) => console.log(`  ${event_type}: ${payload.operation}`),
})

const action = newAction({
  action_type: 'llm_call',
  executor_kind: 'llm',
  params: {
    model: 'demo',
    messages: [{ role: 'user', content: 'Compare the weather in Oslo and Rome, and note it down.' }],
    tools: ['weather.look', 'diary.write'],
    stream: true,
  },
})

const streamed: string[] = []
const { output, token_usage } = await layer.execute(action, {
  role: 'assistant',
  onDelta: (delta) => streamed.push(delta),
})
const { text, rounds } = output as { text: string; rounds: number }
console.log(`says: ${text} (${streamed.length} pieces, ${rounds} rounds, ${token_usage?.total} tokens)`)
console.log(`the diary: ${diary.join(' ')}`)
await layer.close()
