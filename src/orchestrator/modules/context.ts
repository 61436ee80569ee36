import { creating, making, moving, updating } from './intents.ts'
import type { Module } from './module.ts'

const make = making('context', () => ({ status: 'active' }))

/** What a project is about and where it runs. */
export const contextModule: Module = {
  make,
  intents: {
    create: creating('context', make),
    update: updating('context', [
      'title',
      'summary',
      'tags',
      'language',
      'owner_role',
      'constraints',
      'root',
      'updated_at',
    ]),
    activate: moving('context', 'active'),
    suspend: moving('context', 'suspended'),
    archive: moving('context', 'archived'),
    close: moving('context', 'closed'),
  },
}
