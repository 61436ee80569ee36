import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { mcpAdapter } from '../../src/ael/mcp.ts'
import { toolRegistry } from '../../src/ael/tool-registry.ts'
import { ownCertificate } from '../support/certificate.ts'
import { child } from '../support/child.ts'
import { mcpHttpServer } from '../support/mcp-http-server.ts'
import { tempFolder } from '../support/temp-folder.ts'

const CALLER = new URL('./mcp-caller.ts', import.meta.url)
const headers = { authorization: 'Bearer token-of-the-server-1618' }

const opened = async () => {
  const tls = ownCertificate()
  const server = await mcpHttpServer({ tls })
  onTestFinished(() => server.close())
  return { server, tls }
}

it('speaks to an MCP server by https whose authority the process knows, over connections that are kept', async () => {
  const { server, tls } = await opened()
  const authority = join(tempFolder(), 'authority.pem')
  writeFileSync(authority, tls.cert)
  const it = { url: server.url, headers }
  const caller = child(CALLER, [JSON.stringify(it), 'one', 'two'], { NODE_EXTRA_CA_CERTS: authority })
  expect(await caller.exited).toBe('code 0')
  expect(caller.lines).toEqual(['one', 'two'])
  const sent = server.heard.map((heard) => heard.headers.authorization)
  expect(new Set(sent)).toEqual(new Set([headers.authorization]))
  const ports = new Set(server.heard.map(({ port }) => port))
  expect(ports.size).toBeLessThan(server.heard.length)
  expect(server.sessions()).toBe(0)
})

it('tells an MCP server by https nothing whose authority nobody knows, and does not try again', async () => {
  const { server } = await opened()
  const tools = toolRegistry()
  await expect(mcpAdapter({ servers: { it: { url: server.url, headers } }, tools })).rejects.toMatchObject({
    code: 'action_failed',
    retryable: false,
    message: expect.stringMatching(/^the MCP server it cannot be used: .*self-signed certificate/),
  })
  expect(server.heard).toEqual([])
  expect(tools.list()).toEqual([])
})
