import type { ModuleName } from '../../protocol/types.ts'
import { collabModule } from './collab.ts'
import { confirmModule } from './confirm.ts'
import { contextModule } from './context.ts'
import { coreModule } from './core.ts'
import { dialogModule } from './dialog.ts'
import { extensionModule } from './extension.ts'
import type { Module } from './module.ts'
import { networkModule } from './network.ts'
import { planModule } from './plan.ts'
import { roleModule } from './role.ts'
import { traceModule } from './trace.ts'

/** The ten of the protocol. */
export const protocolModules: { readonly [M in ModuleName]: Module } = {
  context: contextModule,
  plan: planModule,
  confirm: confirmModule,
  trace: traceModule,
  role: roleModule,
  extension: extensionModule,
  dialog: dialogModule,
  collab: collabModule,
  core: coreModule,
  network: networkModule,
}
