import { expect, it } from 'vitest'
import { child } from '../support/child.ts'

const shown = async (name: string): Promise<readonly string[]> => {
  const example = child(new URL(`../../examples/${name}.ts`, import.meta.url))
  expect(await example.exited).toBe('code 0')
  return example.lines
}

it('shows a service that runs a flow per request, each once', async () => {
  const one = { order: 'order-1', did: ['pack shoes, act 1', 'send shoes, act 2'], events: expect.any(Number) }
  const lines = await shown('embed-in-fastify')
  expect(lines.slice(0, 3).map((line) => line.slice(0, line.indexOf('{')))).toEqual([
    'order-1: 200 ',
    'order-2: 200 ',
    'order-1: 200 ',
  ])
  expect(JSON.parse(lines[0]!.slice(lines[0]!.indexOf('{')))).toEqual(one)
  expect(lines[2]).toBe(lines[0])
  expect(lines.at(-1)).toBe('4 acts in all')
})

it('shows a plan that waits for a person while no process lives', async () => {
  expect(await shown('approval-over-restart')).toEqual([
    'submitted: the plan is proposed, and this process ends',
    'asked: This changes two tables of the production database',
    'approved: the plan is completed: users migrated, orders migrated',
  ])
})

it('shows a flow with a model in the middle', async () => {
  expect(await shown('llm-flow')).toEqual([
    'read the figures: completed',
    'write the letter: completed',
    'send the letter: completed',
    'sent: Dear board: 1200 pairs sold, 30 returned.',
    'SAInitialized SAContextLoaded SAPlanEvaluated SAStepStarted SAStepCompleted SAStepStarted SAStepCompleted SAStepStarted SAStepCompleted SATraceEmitted SACompleted',
  ])
})

it('shows agents that search side by side and vote', async () => {
  expect(await shown('multi-agent-broadcast')).toEqual([
    '  turn 1: lead',
    'to 3 at once',
    ...['  turn 2: ann', '  turn 3: bob', '  turn 4: cy', '  turn 5: lead'],
    'to 4 at once',
    ...['  turn 6: lead', '  turn 7: ann', '  turn 8: bob', '  turn 9: cy'],
    'settled by voting',
    'found: two pages about snow, an article about snow, a chapter about snow',
    'they publish',
  ])
})
