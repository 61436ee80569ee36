import { EventEmitter } from 'node:events'
import type { Pool } from 'pg'
import { describe, expect, it } from 'vitest'
import { postgresConnection } from '../../src/vsl/postgres-connection.ts'

describe('a connection that is taken', () => {
  it('is listened to at once: a server that ends may say so in the packet in which it says that it is ready', async () => {
    const client = new EventEmitter()
    const connect = (callback?: (error: undefined, taken: EventEmitter) => void) => {
      callback?.(undefined, client)
      client.emit('error', new Error('terminating connection due to unexpected postmaster exit'))
      return Promise.resolve(client)
    }
    expect(await postgresConnection({ pool: { connect } as unknown as Pool }, 1_000).take()).toBe(client)
  })
})
