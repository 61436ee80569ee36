import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { openConfigured } from '../src/configured-store.ts'
import { Refused } from '../src/protocol/errors.ts'
import { keyId } from '../src/vsl/keyring.ts'
import { openStore } from '../src/vsl/vsl.ts'
import { collect } from './contracts/backend/given.ts'
import { tempFolder } from './support/temp-folder.ts'

/** What was asked of the stores that were opened. */
const asked: string[] = []
vi.mock(import('../src/vsl/vsl.ts'), async (original) => {
  const real = await original()
  const openStore: typeof real.openStore = async (...args) => {
    const store = await real.openStore(...args)
    const get = (key: string) => {
      asked.push(key)
      return store.get(key)
    }
    return { ...store, get }
  }
  return { ...real, openStore }
})

const [KEY, NEXT, OTHER] = Array.from({ length: 3 }, () => randomBytes(32).toString('base64')) as [
  string,
  string,
  string,
]
const bytes = new TextEncoder().encode('what was there before')

/** A store with a value and a blob, sealed with one key of that id. */
async function sealedAs(id: string) {
  const vsl = `sqlite:${join(tempFolder(), 'state.db')}`
  const store = await openStore(vsl, { encryption: [{ id, key: KEY }] })
  await store.set('mine', 1)
  const digest = await store.putBlob(bytes)
  await store.close()
  return { vsl, digest }
}

describe('a store that a config opens', () => {
  it.each([
    ['config, as when a config had one key only', 'config'],
    ['a name of its own', keyId(KEY)],
  ])('is opened with its key among others, wherever that stands, if it is known as %s', async (_, id) => {
    const { vsl, digest } = await sealedAs(id)
    for (const encryption_key of [KEY, [KEY, NEXT], [NEXT, KEY], [NEXT, KEY, OTHER]]) {
      const store = await openConfigured({ vsl, encryption_key })
      expect(await store.get('mine')).toBe(1)
      expect(await store.getBlob(digest)).toEqual(bytes)
      expect(await collect(store.blobs())).toEqual([digest])
      await store.set('theirs', 2)
      await store.close()
    }
    for (const encryption_key of [OTHER, NEXT, [OTHER, NEXT]])
      await expect(openConfigured({ vsl, encryption_key })).rejects.toThrow(Refused)
  })

  it('is not opened without a key once it was sealed, also while there is nothing in it', async () => {
    const vsl = `sqlite:${join(tempFolder(), 'state.db')}`
    const encrypted = await openConfigured({ vsl, encryption_key: KEY })
    await encrypted.close()
    await expect(openConfigured({ vsl })).rejects.toThrow('the store is encrypted')
  })

  it('asks once whether a blob is there already, under the name that its one key gives it', async () => {
    const store = await openConfigured({ vsl: 'memory:', encryption_key: KEY })
    onTestFinished(() => store.close())
    asked.length = 0
    await store.putBlob(bytes)
    expect(asked).toEqual([expect.stringContaining(`blob/${keyId(KEY)}/`)])
  })
})
