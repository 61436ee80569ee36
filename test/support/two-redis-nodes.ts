import { Redis } from 'ioredis'
import { expect } from 'vitest'
import { privateRedis } from './servers.ts'

/** A cluster of two nodes that know each other; the first has every slot. */
export async function twoNodes() {
  const nodes = [await privateRedis({ cluster: true }), await privateRedis({ cluster: true })] as const
  const [one, two] = [new Redis(nodes[0].url), new Redis(nodes[1].url)]
  await two.call('CLUSTER', 'FLUSHSLOTS')
  await two.call('CLUSTER', 'MEET', '127.0.0.1', new URL(nodes[0].url).port)
  for (const redis of [one, two])
    await expect
      .poll(async () => String(await redis.call('CLUSTER', 'INFO')).split('\r\n'), { timeout: 20_000 })
      .toEqual(expect.arrayContaining(['cluster_state:ok', 'cluster_known_nodes:2']))
  const slot = String(await one.call('CLUSTER', 'KEYSLOT', '{mplp}:meta'))
  return {
    url: nodes[0].url,
    one,
    two,
    /** Hands the slot of the store, and of the bus, to the second node, with what is in it. */
    async move() {
      const [from, to] = await Promise.all([one, two].map((redis) => redis.call('CLUSTER', 'MYID') as Promise<string>))
      await two.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from!)
      await one.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to!)
      const keys = (await one.call('CLUSTER', 'GETKEYSINSLOT', slot, '100')) as string[]
      const port = new URL(nodes[1].url).port
      if (keys.length > 0) await one.call('MIGRATE', ['127.0.0.1', port, '', '0', '5000', 'KEYS', ...keys])
      for (const redis of [two, one]) await redis.call('CLUSTER', 'SETSLOT', slot, 'NODE', to!)
    },
    /** The second node dies, and the first takes the slot of the store in its place, as a replica would; what was in it is lost. */
    async failOver() {
      two.disconnect()
      await nodes[1].kill()
      await one.call('CLUSTER', 'SETSLOT', slot, 'NODE', (await one.call('CLUSTER', 'MYID')) as string)
    },
    async stop() {
      for (const redis of [one, two]) redis.disconnect()
      await Promise.all(nodes.map((node) => node.stop()))
    },
  }
}
