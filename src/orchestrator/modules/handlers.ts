import { type Clock, systemClock } from '../../protocol/clock.ts'
import { clock as clockField, refuseUnlessFit } from '../../protocol/fields.ts'
import { given } from '../../protocol/given.ts'
import { isObject, type JsonObject } from '../../protocol/json.ts'
import type { ModuleName } from '../../protocol/types.ts'
import type { ModuleCall, ModuleHandler } from '../flow.ts'
import { protocolModules } from './modules.ts'

/**
 * A handler for each of the protocol's modules: it makes the module's object from the flow's input, as much of it as is given there, and from what
 * the modules before it have said.
 */
export function protocolHandlers(options: { clock?: Clock } = {}): { readonly [M in ModuleName]: ModuleHandler } {
  refuseUnlessFit('handlers', options, { clock: clockField })
  const { clock = systemClock } = options
  const handlers = Object.entries(protocolModules).map(([name, { make }]) => {
    const handler: ModuleHandler = ({ ctx, input }) => {
      const object = { ...known(name as ModuleName, ctx), ...(isObject(input) && input) } as JsonObject
      return { output: { [name]: make!(object, { clock }) } }
    }
    return [name, handler]
  })
  return Object.fromEntries(handlers)
}

/** What an object of this module can know of its flow. */
function known(module: ModuleName, ctx: ModuleCall['ctx']): JsonObject {
  const { context_id } = Object(ctx.context) as { context_id?: string }
  const { plan_id } = Object(ctx.plan) as { plan_id?: string }
  switch (module) {
    case 'context':
    case 'role':
    case 'core':
      return {}
    case 'confirm':
      return plan_id === undefined ? {} : { target_type: 'plan', target_id: plan_id }
    case 'trace':
      return given({ context_id, plan_id })
    default:
      return given({ context_id })
  }
}
