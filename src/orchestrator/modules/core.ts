import type { JsonObject } from '../../protocol/json.ts'
import { validate } from '../../protocol/validate.ts'
import type { EventDraft } from '../../psg/change.ts'
import { DOCUMENT_KINDS } from '../../psg/document.ts'
import { changing, creating, type Moved, making, moving, stageOf } from './intents.ts'
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
    create: creating('core', make, initialized),
    activate: moving('core', 'active', undefined, initialized),
    deprecate: moving('core', 'deprecated'),
    archive: moving('core', 'archived'),
    set_module: changing('core', ['module'], ({ module }, core) => {
      const descriptor = validate('module-descriptor', module) as unknown as Descriptor
      const { module_id, status } = descriptor
      const known = core.modules as unknown as readonly Descriptor[]
      const others = known.filter((other) => other.module_id !== module_id)
      const from = known.find((other) => other.module_id === module_id)?.status
      const moved = { id: module_id, ...(from !== undefined && { from }), to: status }
      const stage = status === 'enabled' || status === 'experimental' ? ENABLED : DISABLED
      return {
        set: { modules: [...others, descriptor] },
        reason: `has module ${module_id} ${status}`,
        tell: (id) => [stageOf('module', moved, { ...stage, pipeline_id: id, stage_id: module_id })],
      }
    }),
  },
}
type Descriptor = JsonObject & { readonly module_id: string; readonly status: string }

const ENABLED = { event_type: 'module_enabled', stage_status: 'running' } as const
const DISABLED = { event_type: 'module_disabled', stage_status: 'skipped' } as const

function initialized(moved: Moved): readonly EventDraft[] {
  if (moved.to !== 'active') return []
  return [stageOf('core', moved, { event_type: 'protocol_initialized', stage_id: 'core', stage_status: 'running' })]
}
