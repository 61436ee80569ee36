import { describe, expect, it } from 'vitest'
import { type BusSpec, openBus, openBuses, openSource } from '../../src/bus/bus.ts'
import { placeOf } from '../../src/bus/bus-spec.ts'
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

  it('says why one cannot be opened, also when another cannot be closed', async () => {
    const told: string[] = []
    const transport = { ...memoryTransport(), close: () => expect.fail('cannot be closed') }
    const opening = openBuses([{ name: 'mine', transport }, 'redis://127.0.0.1:1'], {
      onError: (error) => told.push((error as Error).message),
    })
    await expect(opening).rejects.toThrow(Unavailable)
    expect(told).toEqual(['the bus mine cannot be reached: its close failed with cannot be closed'])
  })

  it.each<[string, BusSpec[], string]>([
    ['two buses of one name', ['memory:', 'memory:'], '[1].name'],
    ['a name with a slash', [{ name: 'a/b', url: 'memory:' }], '[0].name'],
    ['a transport without a name', [{ name: '', transport: memoryTransport() }], '[0].name'],
    ['a name that is no text', [{ name: 7 as never, url: 'memory:' }], '[0].name'],
    ['a URL beside a transport', [{ name: 'a', transport: memoryTransport(), url: 'memory:' } as BusSpec], '[0].url'],
    ['a misspelt name', [{ nmae: 'a', url: 'memory:' } as BusSpec], '[0].nmae'],
    ['an unknown scheme', ['memory:', { name: 'a', url: 'amqp://localhost' }], '[1].url'],
    ['no scheme', ['localhost'], '[0]'],
    ['a token in the URL', ['ws://127.0.0.1:0/events?token=x'], '[0]'],
    ['more than a scheme where it says all', ['memory:events'], '[0]'],
    ['a port that there is not', ['kafka://localhost:99999/events'], '[0]'],
    ['TLS, which a bus does not serve itself', ['wss://127.0.0.1:0'], '[0]'],
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

  it('serves WebSockets at 80 where the URL says so, or says nothing: to who parses URLs these are the same', () => {
    for (const url of ['ws://127.0.0.1:80/all', 'ws://127.0.0.1/all'])
      expect(placeOf(url)).toEqual({ host: '127.0.0.1', port: 80, path: '/all' })
    expect(placeOf('ws://[::1]:0')).toEqual({ host: '::1', port: 0, path: '/events' })
  })

  it('refuses to reach a memory bus from elsewhere', async () => {
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
