import type { JsonObject } from '../../protocol/json.ts'
import { validate } from '../../protocol/validate.ts'
import type { EventDraft } from '../../psg/change.ts'
import { DOCUMENT_KINDS } from '../../psg/document.ts'
import { changing, creating, making, moving } from './intents.ts'
import type { Module } from './module.ts'

const VERSION = '1.0.0'

const make = making('core', () => ({
  status: 'draft',
  protocol_version: VERSION,
  modules: DOCUMENT_KINDS.map((module_id) => ({ module_id, version: VERSION, status: 'enabled' })),
}))

/** Which modules of the protocol this project runs, and in which version. */
export const coreModule: Module = {
  make,
  intents: {
    create: creating('core', make),
    activate: moving('core', 'active', undefined, (id) => [stage(id, 'protocol_initialized', 'core', 'running')]),
    deprecate: moving('core', 'deprecated'),
    archive: moving('core', 'archived'),
    set_module: changing('core', ['module'], ({ module }, core) => {
      const descriptor = validate('module-descriptor', module) as unknown as Descriptor
      const others = (core.modules as unknown as readonly Descriptor[]).filter(
        (other) => other.module_id !== descriptor.module_id,
      )
      const { module_id, status } = descriptor
      const enabled = status === 'enabled' || status === 'experimental'
      return {
        set: { modules: [...others, descriptor] },
        reason: `has module ${module_id} ${status}`,
        tell: (id) => [
          stage(id, enabled ? 'module_enabled' : 'module_disabled', module_id, enabled ? 'running' : 'skipped'),
        ],
      }
    }),
  },
}
type Descriptor = JsonObject & { readonly module_id: string; readonly status: string }

const stage = (pipeline_id: string, event_type: string, stage_id: string, stage_status: string): EventDraft => ({
  event: { event_type, event_family: 'pipeline_stage', pipeline_id, stage_id, stage_status },
})
