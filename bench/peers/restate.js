import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http2'
import { join } from 'node:path'
import { versionOf } from './version.js'

// Restate: a handler of ours, called by its server, which keeps the journal. The server outlives the process of the handler; a second one listens
// where the first did.

/** @type {import('../contestants/contestant.ts').Open} */
export const open = async ({ url, folder, name }, work) => {
  Promise.withResolvers ??= withResolvers // the SDK expects it; Node 20 has none
  const restate = await import('@restatedev/restate-sdk')
  const [ingress, admin] = url.split(' ')
  const step = (ctx, id) => ctx.run(id, () => work(id))
  const service = restate.service({
    name,
    handlers: {
      async chain(ctx, steps) {
        for (let i = 0; i < steps; i++) await step(ctx, `s${i}`)
      },
      async fan(ctx, width) {
        await step(ctx, 'first')
        await restate.RestatePromise.all(Array.from({ length: width }, (_, i) => step(ctx, `m${i}`)))
        await step(ctx, 'last')
      },
    },
  })
  const logger = () => undefined
  const handler = restate.createEndpointHandler({ services: [service], logger })
  const server = createServer(handler)
  const portFile = join(folder, 'port')
  const known = existsSync(portFile)
  await new Promise((resolve) =>
    server.listen(known ? Number(readFileSync(portFile, 'utf8')) : 0, '127.0.0.1', resolve),
  )
  const { port } = server.address()
  writeFileSync(portFile, String(port))
  if (!known) await post(`${admin}/deployments`, { uri: `http://127.0.0.1:${port}` })
  let runs = 0
  const call = (method, size, run) =>
    post(`${ingress}/${name}/${method}`, size, { 'idempotency-key': `${name}-${run}` })

  return {
    version: `SDK ${versionOf('@restatedev/restate-sdk')}, server ${versionOf('@restatedev/restate-server')}`,
    durability: "each step's result fsynced by its server (WAL of the log server)",
    chain: (steps) => call('chain', steps, runs++),
    fan: (width) => call('fan', width, runs++),
    resume: (steps) => call('chain', steps, 0), // the same key: it joins the invocation that is there
    close: async () => server.close(),
  }
}

async function post(url, body, headers = {}) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${response.status}: ${(await response.text()).slice(0, 200)}`)
}

function withResolvers() {
  let resolve
  let reject
  const promise = new Promise((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}
