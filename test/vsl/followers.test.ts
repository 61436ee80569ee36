import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import type { Entry } from '../../src/vsl/backend.ts'
import { followers } from '../../src/vsl/followers.ts'

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
