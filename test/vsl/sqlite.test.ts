import { join } from 'node:path'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { backendContract } from '../contracts/backend-contract.ts'
import { tempFolder } from '../support/temp-folder.ts'

backendContract('sqlite', () => {
  const path = join(tempFolder(), 'state.db')
  return { open: () => sqliteBackend({ path }) }
})
