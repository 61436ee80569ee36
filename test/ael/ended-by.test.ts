import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { endedBy } from '../../src/ael/ended-by.ts'

async function address(answer: string): Promise<string> {
  const server = createServer((_, response) => void response.end(answer)).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

it.each(['before it is sent', 'when the answer begins', 'while the last of it is read', 'when it has ended'])(
  'ends a request that is aborted %s, and throws at nobody',
  async (when) => {
    const thrown: unknown[] = []
    const caught = (error: unknown) => void thrown.push(error)
    process.on('uncaughtException', caught)
    onTestFinished(() => void process.off('uncaughtException', caught))
    const work = new AbortController()
    const abort = () => work.abort(new Error('enough'))
    if (when === 'before it is sent') abort()
    const sent = request(await address('an answer'))
    sent.on('error', () => undefined)
    sent.on('response', (response) => {
      response.on('error', () => undefined).on('data', () => when === 'while the last of it is read' && abort())
      if (when === 'when the answer begins') abort()
      if (when === 'when it has ended') response.on('end', abort)
    })
    endedBy(work.signal, sent)
    sent.end()
    await new Promise((resolve) => sent.once('close', resolve))
    await new Promise((resolve) => setImmediate(resolve))
    expect({ thrown, isGone: sent.destroyed, isAborted: work.signal.aborted }).toEqual({
      thrown: [],
      isGone: true,
      isAborted: true,
    })
  },
)
