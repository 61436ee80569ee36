import { getEventListeners } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import type { Entry } from '../../src/vsl/backend.ts'
import { followers } from '../../src/vsl/followers.ts'
import { heardByProcess } from '../support/heard-by-process.ts'

it('holds no page that a follower has done with', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const pages: WeakRef<readonly Entry[]>[] = []
  const nextPage = async () => {
    const page = [{ stream: 'g', revision: pages.length + 1, position: '', body: null }]
    pages.push(new WeakRef(page))
    return page
  }

  let read = 0
  for await (const _ of followers('the store', async () => undefined).entries('g', nextPage, { follow: true })) {
    if (++read < 100) continue
    await new Promise(setImmediate) // what is only held for the turn is let go
    collect()
    expect(pages.filter((page) => page.deref() !== undefined).length).toBeLessThanOrEqual(2)
    return
  }
})

it('lets as many follow as share one signal, and no leak is suspected', async () => {
  const warned = heardByProcess('warning')
  const enough = new AbortController()
  const { entries } = followers('the store', async () => undefined)
  const following = Array.from({ length: 11 }, async () => {
    for await (const _ of entries('g', async () => [], { follow: true, signal: enough.signal })) expect.unreachable()
  })
  await new Promise((resolve) => setImmediate(resolve)) // they are asleep by now, and a warning is told in a turn of its own
  enough.abort()
  await Promise.all(following)
  expect(warned).toEqual([])
})

it('leaves nothing on a signal that lives on when a follower goes in the middle', async () => {
  const { signal } = new AbortController()
  const { entries } = followers('the store', async () => undefined)
  const nextPage = async () => [{ stream: 'g', revision: 1, position: '', body: null }]
  for await (const _ of entries('g', nextPage, { follow: true, signal })) break
  expect(getEventListeners(signal, 'abort')).toEqual([])
})
