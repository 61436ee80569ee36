import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestProject } from 'vitest/node'
import { type ServerName, servers } from './start-servers.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Where test files ask for servers: `GET /redis` answers a Meeting when Redis is up. */
    readonly servers: string
    /** Begins every name that a test gives to a schema, key prefix or topic. */
    readonly run: string
  }
}

/** One set of servers for a whole run, held by vitest's main process; each starts when the first test file asks for it. */
export default async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  if (!project.isRootProject()) return undefined // projects inherit the setting, and what the root provides
  const set = servers()
  const door = createServer(async (request, response) => {
    try {
      const meeting = await set.need(request.url?.slice(1) as ServerName)
      response.end(JSON.stringify(meeting))
    } catch (error) {
      response.statusCode = 500
      response.end(error instanceof Error ? error.message : String(error))
    }
  })
  door.requestTimeout = 0 // a first fetch of Kafka takes minutes
  await new Promise<void>((resolve) => door.listen(0, '127.0.0.1', resolve))
  project.provide('servers', `http://127.0.0.1:${(door.address() as AddressInfo).port}`)
  project.provide('run', set.run)

  return async () => {
    door.close()
    door.closeAllConnections()
    const report = await set.report()
    await set.stop()
    process.stdout.write(`\n ${report}\n`)
  }
}
