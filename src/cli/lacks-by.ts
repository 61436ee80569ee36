import type { Lack } from '../ael/adapter.ts'
import type { ActionLayer } from '../ael/layer.ts'
import type { Config } from '../config.ts'
import { adaptersOf, toolsOf } from '../configured-adapters.ts'
import { systemClock } from '../protocol/clock.ts'
import { warn } from '../protocol/reporter.ts'

/** What a worker with this config would lack, as far as that can be said without starting one: which tools an MCP server has, only it knows. */
export async function lacksBy({ mcp = {}, adapters = [], ...config }: Config): Promise<ActionLayer['lacks']> {
  const { actionLayer } = await import('../ael/ael.ts')
  const { toolAdapter } = await import('../ael/tool.ts')
  const tools = await toolsOf(config)
  const never = new Promise<never>(() => undefined) // nothing is carried out, so no store is needed
  const no = async () => false
  const files = { folder: undefined, root: '.', kept: { mayRead: no, mayWrite: no } }
  const parts = { tools, blobs: never, clock: systemClock, onError: warn, ...files }
  const layer = actionLayer({
    adapters: [
      ...(await adaptersOf(config, parts)),
      ...(Object.keys(mcp).length > 0 ? [{ ...toolAdapter(tools), action_type: 'mcp_call' }] : []),
      ...adapters,
    ],
  })
  const mayHave = ({ what, name }: Lack) => what === 'tool' && Object.hasOwn(mcp, name.split('.', 1)[0]!)
  return (action) => {
    const lack = layer.lacks(action)
    return lack && !mayHave(lack) ? lack : undefined
  }
}
