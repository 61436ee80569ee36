import type { JsonObject } from '../../protocol/json.ts'
import { altering, changing, creating, making, updating } from './intents.ts'
import { type Module, textOf } from './module.ts'

const make = making('role')

/** Who may do what. Roles belong to the project, and are retired rather than deleted. */
export const roleModule: Module = {
  make,
  intents: {
    create: creating('role', make),
    update: updating('role', ['name', 'description', 'updated_at']),
    grant: changing('role', ['capability'], (input, role) => {
      const capability = textOf(input, 'capability')
      const capabilities = [...without(role, capability), capability]
      return { set: { capabilities }, reason: `may ${capability}` }
    }),
    revoke: changing('role', ['capability'], (input, role) => {
      const capability = textOf(input, 'capability')
      return { set: { capabilities: without(role, capability) }, reason: `may no longer ${capability}` }
    }),
    retire: altering('role', [], (id) => ({
      changes: [{ kind: 'node_update', node: 'role', id, set: {}, retired: true }],
      reason: `role ${id} is retired`,
    })),
  },
}

const without = (role: JsonObject, capability: string): readonly string[] =>
  ((role.capabilities ?? []) as readonly string[]).filter((held) => held !== capability)
