// A service that runs a flow per request. The caller names the run, so that asking twice does the work once, also after a crash in between.
// npx tsx examples/embed-in-fastify.ts
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fastify from 'fastify'
import { protocolHandlers } from '../src/orchestrator/modules/handlers.ts'
import { runSingleAgentFlow } from '../src/orchestrator/single-agent.ts'
import { sqliteBackend } from '../src/vsl/sqlite.ts'

const folder = await mkdtemp(join(tmpdir(), 'mplp-fastify-'))
const vsl = await sqliteBackend({ path: join(folder, 'state.db') })
let acts = 0

const app = fastify()

app.post<{ Params: { order: string }; Body: { item: string } }>('/orders/:order', async (request, reply) => {
  const { order } = request.params
  const { item } = request.body
  const runtimeContext = { ids: { runId: order }, coordination: {}, events: [] }
  const { success, output, error, events } = await runSingleAgentFlow({
    flow: {
      steps: [
        { module: 'context', input: { title: `Order ${order}`, root: { domain: 'shop', environment: 'demo' } } },
        {
          module: 'plan',
          input: {
            title: `Send ${item}`,
            objective: 'It arrives',
            steps: [{ description: `pack ${item}` }, { description: `send ${item}`, dependencies: [0] }],
          },
        },
      ],
    },
    runtimeContext,
    modules: protocolHandlers(),
    vsl,
    // Whatever carries out the steps: here, a function that counts.
    ael: { execute: async ({ params }: { params: { description: string } }) => `${params.description}, act ${++acts}` },
  })
  if (!success) return reply.code(error?.code === 'INVALID_INPUT' ? 400 : 422).send({ error })
  return { order, did: Object.values(output!.steps!), events: events.length }
})

const address = await app.listen({ port: 0, host: '127.0.0.1' })
const ask = async (order: string, body: object) => {
  const response = await fetch(`${address}/orders/${order}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  console.log(`${order}: ${response.status} ${JSON.stringify(await response.json())}`)
}

await ask('order-1', { item: 'shoes' })
await ask('order-2', { item: 'socks' })
await ask('order-1', { item: 'shoes' }) // again: the same answer, and nothing is sent twice
console.log(`${acts} acts in all`)

await app.close() // answers whom it has let in; what a kill cuts off goes on when it is asked for again
await vsl.close()
await rm(folder, { recursive: true })
