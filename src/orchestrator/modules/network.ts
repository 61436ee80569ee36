import type { JsonObject } from '../../protocol/json.ts'
import type { Change } from '../../psg/change.ts'
import { addingTo, altering, creating, making, moving } from './intents.ts'
import { type Ground, type Intent, type Maker, type Module, partOf, textOf } from './module.ts'

const draft = making('network', () => ({ status: 'draft' }))

const make: Maker = (given, ground) =>
  draft(
    { ...given, ...(Array.isArray(given.nodes) && { nodes: given.nodes.map((node) => completed(node, ground)) }) },
    ground,
  )

/** Who can be reached, and how they stand. */
export const networkModule: Module = {
  make,
  intents: {
    create: creating('network', make),
    add_node: addingTo('network', 'network_node', completed),
    set_node_status: onNode(['status'], (id, input) => ({
      kind: 'node_update',
      node: 'network_node',
      id,
      set: { status: textOf(input, 'status') as 'active' },
    })),
    remove_node: onNode([], (id) => ({ kind: 'node_delete', node: 'network_node', id })),
    provision: moving('network', 'provisioning'),
    activate: moving('network', 'active'),
    degrade: moving('network', 'degraded'),
    maintain: moving('network', 'maintenance'),
    retire: moving('network', 'retired'),
  },
}

function onNode(fields: readonly string[], change: (node: string, input: JsonObject) => Change): Intent {
  return altering('network', ['node_id', ...fields], (owner, input, graph) => {
    const node = partOf(graph, input, 'node_id', { kind: 'network_node', owner })
    return { changes: [change(node, input)], reason: `node ${node} is changed` }
  })
}

function completed(node: JsonObject, { clock }: Pick<Ground, 'clock'>): JsonObject {
  return { node_id: clock.uuid(), status: 'active', ...node }
}
