import { creating, making, moving, updating } from './intents.ts'
import type { Module } from './module.ts'

const make = making('extension', () => ({ status: 'registered' }))

/** What is plugged into a context. */
export const extensionModule: Module = {
  make,
  intents: {
    register: creating('extension', make),
    configure: updating('extension', ['config', 'version']),
    activate: moving('extension', 'active'),
    deactivate: moving('extension', 'inactive'),
    deprecate: moving('extension', 'deprecated'),
  },
}
