import { expect } from 'vitest'
import { tortureBus } from '../../scripts/torture/bus.ts'
import { freshPrefix, freshTopic, itNeeds, redisUrl } from '../support/servers.ts'

itNeeds('real kafka')(
  'brings every bus what was committed, and nothing else, however often its process is killed',
  async (brokers) => {
    const redis = (await redisUrl()) as string
    const where = { redis, prefix: freshPrefix(), kafka: `kafka://${brokers}/${freshTopic()}` }
    const buses = await tortureBus({ kills: 6, lifeMs: 400, ...where })
    for (const { committed, ...bus } of Object.values(buses)) {
      expect(committed).toBeGreaterThan(0)
      expect(bus).toMatchObject({ received: committed, lost: 0, invented: 0, out_of_order: 0 })
    }
  },
  240_000,
)
