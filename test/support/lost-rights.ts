import { chmodSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect } from 'vitest'
import { tempFolder } from './temp-folder.ts'

/** Has a process that is nobody open a store in a folder, which is shut to it for a while: it says so, and then goes on. `begin` gives how it is told. */
export async function outlivesLostRights(
  begin: (shared: string) => (order: string) => Promise<unknown>,
): Promise<void> {
  const folder = tempFolder()
  for (const way of [folder, dirname(folder)]) chmodSync(way, 0o755)
  const shared = join(folder, 'shared')
  mkdirSync(shared)
  chmodSync(shared, 0o777)
  const told = begin(shared)
  for (const order of ['nobody', 'open']) await told(order)
  chmodSync(shared, 0o700)
  expect(await told('commit')).toEqual({ code: 'unavailable', message: expect.stringContaining('see to its rights') })
  chmodSync(shared, 0o777)
  expect(await told('commit')).toEqual({ revision: 1 })
}
