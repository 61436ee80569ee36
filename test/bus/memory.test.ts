import { memoryTransport } from '../../src/bus/memory.ts'
import { transportContract } from '../contracts/transport-contract.ts'
import { keptHistory } from './kept-history.ts'

transportContract('memory', async () => {
  const transport = memoryTransport({ graceMs: 300 })
  return { transport, listener: async () => transport, close: () => transport.close() }
})

transportContract('memory with a history', async () => {
  const history = keptHistory()
  const transport = history.over(memoryTransport({ graceMs: 300, history }))
  return { transport, listener: async () => transport, close: () => transport.close() }
})
