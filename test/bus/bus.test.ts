import { describe, expect, it } from 'vitest'
import { type BusSpec, openBus, openBuses, openSource } from '../../src/bus/bus.ts'
import { memoryTransport } from '../../src/bus/memory.ts'
import type { Delivery } from '../../src/bus/transport.ts'
import { InvalidInput, Refused, Unavailable } from '../../src/protocol/errors.ts'
import { delivery, until } from '../contracts/transport-contract.ts'
import { freePort } from '../support/private-server.ts'
import { freshPrefix, freshTopic, itNeeds } from '../support/servers.ts'
import { keptHistory } from './kept-history.ts'

describe('openBus and openSource', () => {
  it('meet at the URL of a WebSocket', async () => {
    const url = `ws://127.0.0.1:${await freePort()}/all`
    const asked: string[] = []
    const history = (name: string) => {
      asked.push(name)
      return keptHistory()
    }
    await carries(url, url, { history })
    expect(asked).toEqual(['websocket'])
  })
  itNeeds('redis')('meet at the URL of a Redis', (url) => carries(url, url, { redis: { prefix: freshPrefix() } }))
  itNeeds('real kafka')('meet at the URL of a topic', async (brokers) => {
    const url = `kafka://${brokers}/${freshTopic()}`
    await carries(url, url, { kafka: { createTopic: true } })
  })

  it('opens several under different names, and takes transports as they are', async () => {
    const own = memoryTransport()
    const buses = await openBuses(['memory:', { name: 'audit', url: 'memory:' }, { name: 'own', transport: own }])
    expect(buses.map(({ name }) => name)).toEqual(['memory', 'audit', 'own'])
    expect(buses[2]?.transport).toBe(own)
    await Promise.all(buses.map(({ transport }) => transport.close()))
  })

  it('closes those it has opened when another cannot be', async () => {
    const port = await freePort()
    const specs = [`ws://127.0.0.1:${port}`, 'redis://127.0.0.1:1']
    await expect(openBuses(specs)).rejects.toThrow(Unavailable)
    const { transport } = await openBus(`ws://127.0.0.1:${port}`) // the port is free again
    await transport.close()
  })

  it.each<[string, BusSpec[], string]>([
    ['two buses of one name', ['memory:', 'memory:'], '[1].name'],
    ['a name with a slash', [{ name: 'a/b', url: 'memory:' }], 'name'],
    ['a transport without a name', [{ name: '', transport: memoryTransport() }], 'name'],
    ['an unknown scheme', ['amqp://localhost'], 'url'],
    ['no scheme', ['localhost'], 'url'],
    ['a token in the URL', ['ws://127.0.0.1:0/events?token=x'], 'url'],
  ])('refuses %s', async (_, specs, path) => {
    const error = await openBuses(specs).catch((e) => e)
    expect(error).toBeInstanceOf(InvalidInput)
    expect(error.problems[0].path).toBe(path)
  })

  it.each<[string, unknown]>([
    ['what is nothing', [null]],
    ['what is neither text nor object', [7]],
    ['a transport that is none', [{ name: 'own', transport: {} }]],
    ['a transport that is nothing', [{ name: 'own', transport: null }]],
    ['what is no list', 'memory:'],
  ])('refuses %s', async (_, specs) => {
    await expect(openBuses(specs as BusSpec[])).rejects.toThrow(InvalidInput)
  })

  it('refuses to serve TLS itself, and to reach a memory bus from elsewhere', async () => {
    await expect(openBus('wss://127.0.0.1:0')).rejects.toThrow(Refused)
    await expect(openSource('memory:')).rejects.toThrow(Refused)
  })
})

async function carries(busUrl: string, sourceUrl: string, options: Parameters<typeof openBus>[1] = {}): Promise<void> {
  const { transport } = await openBus(busUrl, options)
  const { redis, kafka } = options
  const source = await openSource(sourceUrl, { ...(redis && { redis }), ...(kafka && { kafka }) })
  const got: Delivery[] = []
  await source.subscribe({}, (d) => void got.push(d))
  await transport.publish([delivery(1)])
  await until(() => got.length === 1)
  await source.close()
  await transport.close()
}
