import type { Backend } from './backend.ts'
import {
  checkAcquire,
  checkBytes,
  checkDigest,
  checkFeed,
  checkForgetting,
  checkLease,
  checkName,
  checkNames,
  checkRead,
  checkScan,
} from './check-input.ts'

/**
 * A member of whose calls none is made that may not be: `open` throws once the store is closed, and what no member may take is refused here, so
 * that members need not look. Commits are looked at where they are prepared; who goes on reading asks by itself whether the store is still open.
 */
export function checked(open: () => void, member: Backend): Backend {
  const whenRead = <T>(check: () => void, read: () => AsyncIterable<T>): AsyncIterable<T> => ({
    [Symbol.asyncIterator]() {
      open()
      check()
      return read()[Symbol.asyncIterator]()
    },
  })
  const { facts } = member
  return {
    ...member,
    ...(facts && {
      async facts() {
        open()
        return facts()
      },
    }),

    async get(key) {
      open()
      checkName('key', key)
      return member.get(key)
    },
    async set(key, value) {
      open()
      checkName('key', key)
      await member.set(key, value)
    },
    async delete(key) {
      open()
      checkName('key', key)
      await member.delete(key)
    },

    async getMany(keys) {
      open()
      checkNames('keys', keys)
      return member.getMany(keys)
    },
    scan: (prefix, from = {}) =>
      whenRead(
        () => checkScan(prefix, from),
        () => member.scan(prefix, from),
      ),

    async head(stream) {
      open()
      checkName('stream', stream)
      return member.head(stream)
    },
    read: (stream, from = {}) =>
      whenRead(
        () => checkRead(stream, from),
        () => member.read(stream, from),
      ),
    feed: (from = {}) =>
      whenRead(
        () => checkFeed(from),
        () => member.feed(from),
      ),

    async acquire(stream, holder, ttlMs) {
      open()
      checkAcquire(stream, holder, ttlMs)
      return member.acquire(stream, holder, ttlMs)
    },
    async renew(lease) {
      open()
      checkLease(lease)
      return member.renew(lease)
    },
    async release(lease) {
      open()
      checkLease(lease)
      await member.release(lease)
    },

    async putBlob(bytes) {
      open()
      checkBytes(bytes)
      return member.putBlob(bytes)
    },
    async getBlob(digest) {
      open()
      checkDigest(digest)
      return member.getBlob(digest)
    },
    async forgetBlobs(digests, unputMs) {
      open()
      checkForgetting(digests, unputMs)
      return member.forgetBlobs(digests, unputMs)
    },
  }
}
