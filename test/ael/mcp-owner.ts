import { once } from 'node:events'
import { mcpAdapter } from '../../src/ael/mcp.ts'
import { toolRegistry } from '../../src/ael/tool-registry.ts'

/** Starts the MCP server that it is given, and ends as it is told, without closing anything. */
const [server = '', way = ''] = process.argv.slice(2)
await mcpAdapter({ servers: { it: JSON.parse(server) }, tools: toolRegistry() })
console.log('open')
await once(process.stdin, 'data')
if (way === 'throw') throw new Error('out of order')
process.exit(1)
