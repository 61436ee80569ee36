import { join } from 'node:path'
import { manualClock } from '../../src/protocol/clock.ts'
import { fileBackend } from '../../src/vsl/file.ts'
import { backendContract } from '../contracts/backend-contract.ts'
import { tempFolder } from '../support/temp-folder.ts'

backendContract('file', () => {
  const clock = manualClock()
  const path = join(tempFolder(), 'state')
  return { open: () => fileBackend({ path, clock }), elapse: clock.advance }
})
