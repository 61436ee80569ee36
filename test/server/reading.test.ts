import { once } from 'node:events'
import { expect, it, onTestFinished } from 'vitest'
import { WebSocket } from 'ws'
import { PROTOCOL } from '../../src/bus/websocket-frames.ts'
import { roughBytes } from '../../src/protocol/json.ts'
import { serve } from '../../src/server/server.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { eachTurn } from '../support/each-turn.ts'
import { chainOf } from '../support/flows.ts'
import { serving, told } from './serving.ts'

const READERS = 12
/** Four stretches, what goes beyond them, and a little more: who had to wait for its socket has the rest of its own when others begin. */
const MOST_BYTES = 224 * 1024

const bySse = async (url: string) => (await told(`${url}/events?follow=false`)).length

async function byWebSocket(url: string, events: number): Promise<number> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/events`, PROTOCOL)
  onTestFinished(() => socket.terminate())
  let heard = -1 // the first frame says where it begins
  socket.on('message', () => {
    if (++heard === events) socket.close()
  })
  await once(socket, 'open')
  socket.send('{"filter":{},"after":""}')
  await once(socket, 'close')
  return heard
}

it.each([
  ['server-sent events', bySse],
  ['WebSocket', byWebSocket],
])('many who read the whole journal by %s leave the event loop its turns', async (_, read) => {
  const { runtime, url: before } = await serving({}, { functions: { noop: () => 1 } })
  await Promise.all(Array.from({ length: 8 }, async () => (await runtime.submit(chainOf(10))).result()))
  const events = await bySse(before)
  let isCounted = false
  let bytes = 0
  const feed: Backend['feed'] = async function* (from) {
    const counts = isCounted // the server's own began before
    for await (const entry of runtime.store.feed(from)) {
      if (counts) bytes += roughBytes(entry.body)
      yield entry
    }
  }
  const server = await serve({ ...runtime, store: { ...runtime.store, feed } }, { port: 0 })
  onTestFinished(() => server.close())
  isCounted = true
  const most = eachTurn(() => bytes)
  const heard = await Promise.all(Array.from({ length: READERS }, () => read(server.url, events)))
  expect(heard).toEqual(Array.from({ length: READERS }, () => events))
  expect(bytes).toBeGreaterThan(READERS * MOST_BYTES)
  expect(most()).toBeLessThanOrEqual(MOST_BYTES)
})
