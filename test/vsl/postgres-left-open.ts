import { once } from 'node:events'
import { postgresBackend } from '../../src/vsl/postgres.ts'

// Opens a store, reads and follows, and closes it when its stdin ends: if it does not end by itself, something was left behind.
const store = await postgresBackend({ url: process.argv[2]!, schema: process.argv[3]!, timeoutMs: 2000 })
await Promise.all([store.head('g'), store.head('h')])
const followed = (async () => {
  for await (const { body } of store.feed({ follow: true })) process.stdout.write(`${body}\n`)
})()
process.stdin.resume()
await once(process.stdin, 'end')
await store.close()
await followed
process.stdout.write('closed\n')
