import { EventEmitter } from 'node:events'
import type { FastifyReply } from 'fastify'
import { expect, it } from 'vitest'
import { openRuntime } from '../../src/compose.ts'
import { Closed } from '../../src/protocol/errors.ts'
import type { Request } from '../../src/server/route.ts'
import { runRoutes } from '../../src/server/runs.ts'
import { flowOf } from '../support/flows.ts'

it('looks at no further run once nobody waits for the list', async () => {
  const runtime = await openRuntime({ vsl: 'memory:' })
  const waits = { binding: { action_type: 'wait', params: { signal: 'go' } } } as const
  for (let n = 0; n < 5; n++) await runtime.submit(flowOf({ waits }))
  const raw = new EventEmitter()
  let looks = 0
  const get: typeof runtime.get = async (id) => {
    looks++
    raw.emit('close')
    return runtime.get(id)
  }
  const list = runRoutes({ ...runtime, get }, new AbortController()).find(
    ({ method, path }) => method === 'GET' && path === '/runs',
  )!
  const asked = { query: {}, raw } as unknown as Request
  await expect(list.handle(asked, {} as FastifyReply)).rejects.toThrow(Closed)
  expect(looks).toBe(1)
  await runtime.close()
})
