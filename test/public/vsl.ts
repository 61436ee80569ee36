import { join } from 'node:path'
import { systemClock } from '../../src/protocol/clock.ts'
import { digestOf } from '../../src/protocol/json.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { bare, type Doors, door, elsewhere, given, json, making, name, open, options, saying } from './doors.ts'

const holder = thisHolder('somebody')
const lease = { stream: 'held', holder, token: 1, ttlMs: 1000 }
const write = { stream: 's', expected: 0, entry: { commit_id: 'a' }, inserts: [], puts: [], deletes: [] }
const KEY = { id: 'k', key: new Uint8Array(32).fill(7) }

function bareStore() {
  const cells = new Map<string, unknown>()
  return { get: (key: string) => cells.get(key), set: (key: string, value: unknown) => void cells.set(key, value) }
}

export const SOURCE: Doors = {
  getMany: door(given(['a'], 'list')),
  scan: door(name(''), open()),
  feed: door(open()),
  getBlob: door(given(digestOf('a'))),
  blobs: bare,
}
const BACKEND: Doors = {
  ...SOURCE,
  get: door(name('a')),
  set: door(name('a'), json(1)),
  delete: door(name('a')),
  commit: door(given(write)),
  head: door(name('s')),
  read: door(name('s'), open()),
  acquire: door(name('held'), given(holder), given(1000, 'number')),
  renew: door(given(lease)),
  release: door(given(lease)),
  putBlob: door(given(new Uint8Array([1]))),
  forgetBlobs: door(given([digestOf('a')], 'list'), given(0, 'number')),
  close: bare,
}
export const STORE = elsewhere(BACKEND)

export const vsl: { readonly [entry: string]: Doors } = {
  './vsl': {
    checkStoreUrl: door(given('memory:')),
    commitOnce: door(given(memoryBackend()), given(write), saying({ clock: systemClock })),
    copyStore: door(given(memoryBackend()), given(memoryBackend()), options()),
    holderIsGone: door(given(holder)),
    fromBare: making(BACKEND, given(bareStore()), options()),
    openStore: making(STORE, given('memory:'), options()),
    storePath: door(name('file:./a')),
    thisHolder: door(name('somebody')),
    withChecks: making(BACKEND, given(memoryBackend())),
    withEncryption: making(BACKEND, given(memoryBackend()), given([KEY])),
  },
  './vsl/file': { fileBackend: making(BACKEND, saying({ path: join(tempFolder(), 'f') })) },
  './vsl/lifted': {
    isBareStore: 'asks of anything whether it is one',
    liftedBackend: making(STORE, given(bareStore()), options()),
  },
  './vsl/memory': { memoryBackend: making(BACKEND, options()) },
  './vsl/postgres': { postgresBackend: { ...door(saying({ url: 'postgres://127.0.0.1:1/none' })), unreached: true } },
  './vsl/redis': { redisBackend: { ...door(saying({ url: 'redis://127.0.0.1:1' })), unreached: true } },
  './vsl/sqlite': { sqliteBackend: making({ ...BACKEND, facts: bare }, saying({ path: join(tempFolder(), 's.db') })) },
}
