import { newAction } from '../../src/ael/action.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { mcpAdapter } from '../../src/ael/mcp.ts'
import { toolRegistry } from '../../src/ael/tool-registry.ts'

/** Has the MCP server that it is given say some words, one call after another, and leaves. */
const [server = '', ...words] = process.argv.slice(2)
const layer = actionLayer({
  adapters: [await mcpAdapter({ servers: { it: JSON.parse(server) }, tools: toolRegistry() })],
})
for (const said of words) {
  const params = { tool_name: 'it.echo', tool_args: { said } }
  console.log((await layer.execute(newAction({ action_type: 'mcp_call', params }))).output)
}
await layer.close()
