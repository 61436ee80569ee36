// Four agents: one asks, three search side by side, the first brings together what they found; and then all vote.
// npx tsx examples/multi-agent-broadcast.ts
import { actionLayer } from '../src/ael/ael.ts'
import { functionAdapter } from '../src/ael/function.ts'
import { InMemoryVSL } from '../src/orchestrator/in-memory.ts'
import { protocolHandlers } from '../src/orchestrator/modules/handlers.ts'
import { runMultiAgentFlow } from '../src/orchestrator/multi-agent.ts'
import { systemClock } from '../src/protocol/clock.ts'
import type { Json, JsonObject } from '../src/protocol/json.ts'

const { uuid } = systemClock
const [ask, web, news, books, merge, vote] = [uuid(), uuid(), uuid(), uuid(), uuid(), uuid()]
const found: { readonly [who: string]: string } = { ann: 'two pages', bob: 'an article', cy: 'a chapter' }
const opinion: { readonly [who: string]: string } = { lead: 'publish', ann: 'wait', bob: 'publish', cy: 'publish' }

const calls = (name: string, args: Json) => ({ action_type: 'function', params: { name, args } })
const who = { $turn: 'participant_id' }
const search = calls('search', { who, query: { $from: ask } })

const { success, output, error, events } = await runMultiAgentFlow({
  flow: {
    steps: [
      { module: 'context', input: { title: 'A survey', root: { domain: 'research', environment: 'demo' } } },
      { module: 'role', input: { name: 'orchestrator' } },
      { module: 'role', input: { name: 'searcher' } },
      {
        module: 'collab',
        input: {
          title: 'Survey',
          purpose: 'To find what is known',
          mode: 'broadcast',
          participants: [
            { participant_id: 'lead', role_id: 'orchestrator', kind: 'agent' },
            ...['ann', 'bob', 'cy'].map((participant_id) => ({ participant_id, role_id: 'searcher', kind: 'agent' })),
          ],
        },
      },
      {
        module: 'plan',
        input: {
          title: 'Survey',
          objective: 'What is known about snow',
          steps: [
            { step_id: ask, description: 'ask', agent_role: 'orchestrator' },
            ...[web, news, books].map((step_id) => ({
              step_id,
              description: 'search',
              agent_role: 'searcher',
              dependencies: [ask],
            })),
            { step_id: merge, description: 'merge', agent_role: 'orchestrator', dependencies: [web, news, books] },
            { step_id: vote, description: 'publish or wait?', dependencies: [merge] },
          ],
        },
      },
    ],
    bindings: {
      steps: {
        [ask]: calls('ask', null),
        [web]: search,
        [news]: search,
        [books]: search,
        [merge]: calls(
          'merge',
          [web, news, books].map(($from) => ({ $from })),
        ),
        [vote]: calls('vote', who),
      },
    },
    // Everybody may answer the last step; where they differ, most of them decide.
    session: { conflicts: { strategies: ['voting', 'escalation'] } },
  },
  runtimeContext: { ids: { runId: 'survey-1' }, coordination: {}, events: [] },
  modules: protocolHandlers(),
  vsl: new InMemoryVSL(),
  ael: (hands) =>
    actionLayer({
      ...hands,
      adapters: [
        functionAdapter({
          ask: () => 'snow',
          search: (args) => `${found[String((args as JsonObject).who)]} about ${(args as JsonObject).query}`,
          merge: (parts) => (parts as readonly string[]).join(', '),
          vote: (name) => opinion[String(name)]!,
        }),
      ],
    }),
})

if (!success) console.log(`${error?.code}: ${error?.message}`)
for (const { event_type, payload } of events as { event_type: string; payload: JsonObject }[]) {
  if (event_type === 'MAPBroadcastSent') console.log(`to ${payload.target_count} at once`)
  if (event_type === 'MAPTurnCompleted') console.log(`  turn ${payload.turn_number}: ${payload.participant_id}`)
  if (event_type === 'MAPConflictResolved') console.log(`settled by ${payload.resolution_strategy}`)
}
const steps = output?.steps as JsonObject
console.log(`found: ${steps[merge]}`)
console.log(`they ${steps[vote]}`)
