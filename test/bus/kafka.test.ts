import { kafkaTransport } from '../../src/bus/kafka.ts'
import type { Source } from '../../src/bus/transport.ts'
import { transportContract } from '../contracts/transport-contract.ts'
import { freshTopic, suiteNeeds } from '../support/servers.ts'

await suiteNeeds('kafka', (brokers) =>
  transportContract(
    'kafka',
    async () => {
      const url = `kafka://${brokers}/${freshTopic()}`
      const open = () => kafkaTransport({ url, graceMs: 300, createTopic: { partitions: 3 }, onError: () => undefined })
      const listeners: Source[] = []
      const transport = await open()
      return {
        transport,
        async listener() {
          const listener = await open()
          listeners.push(listener)
          return listener
        },
        async close() {
          for (const listener of listeners) await listener.close()
          await transport.close()
        },
      }
    },
    60_000,
  ),
)
