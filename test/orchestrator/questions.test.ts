import { expect, it } from 'vitest'
import { questionsIn } from '../../src/orchestrator/questions.ts'
import { openProject } from '../../src/psg/project.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { flowOf, runtimeOf } from '../support/flows.ts'

it('looks once at each context that questions wait in, however many', async () => {
  const runtime = await runtimeOf({})
  const { context_id } = await runtime.submit(flowOf({ a: { call: 'noop' } }))
  for (let n = 0; n < 20; n++) {
    const { context: _, plan, ...flow } = flowOf({ a: { call: 'noop' } }, { approval: { roles: ['lead'] } })
    await runtime.submit({ ...flow, context: context_id, plan: { ...plan, context_id } })
  }
  let looks = 0
  const counting: Backend = {
    ...runtime.store,
    read(...asked) {
      looks++
      return runtime.store.read(...asked)
    },
  }
  const project = await openProject(counting)
  await project.context(context_id)
  looks = 0
  expect(await questionsIn(project)).toHaveLength(20)
  expect(looks).toBe(1)
  await runtime.close()
})
