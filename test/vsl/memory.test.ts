import { manualClock } from '../../src/protocol/clock.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { backendContract } from '../contracts/backend-contract.ts'

backendContract('memory', () => {
  const clock = manualClock()
  return { open: async () => memoryBackend({ clock }), elapse: clock.advance }
})
