import { describe, expect, it } from 'vitest'
import { InvalidInput } from '../../src/protocol/errors.ts'
import { redisAddress } from '../../src/protocol/redis-address.ts'

describe('the address of a Redis', () => {
  it.each([
    ['redis://localhost', { host: 'localhost', port: 6379, db: 0 }],
    ['redis://[::1]:7000/3', { host: '::1', port: 7000, db: 3 }],
    ['redis://me:p%40ss%25@host', { host: 'host', port: 6379, db: 0, username: 'me', password: 'p@ss%' }],
    ['rediss://host', { host: 'host', port: 6379, db: 0, tls: { servername: 'host' } }],
    ['rediss://10.0.0.1', { host: '10.0.0.1', port: 6379, db: 0, tls: {} }],
    ['rediss://[::1]', { host: '::1', port: 6379, db: 0, tls: {} }],
  ])('reads %s', (url, address) => {
    expect(redisAddress(url, 'store')).toEqual(address)
  })

  it.each([
    ['', 'is not a URL'],
    ['http://host', 'begins with http:'],
    ['redis://host?db=1', 'has a query'],
    ['redis://host/one', 'is not the number of a database'],
    ['redis://:50%@host', 'write it as %25'],
  ])('refuses %j', (url, message) => {
    for (const of of ['store', 'bus'] as const) {
      expect(() => redisAddress(url, of)).toThrow(InvalidInput)
      expect(() => redisAddress(url, of)).toThrow(message)
    }
  })
})
