import type { PoolClient } from 'pg'
import { type Clock, systemClock } from '../protocol/clock.ts'
import { slept } from '../protocol/waiting.ts'
import type { Followers } from './followers.ts'
import type { PostgresConnection } from './postgres-connection.ts'

/** Tells the followers of all processes that there are new entries. */
export interface News {
  /** Done when whatever is committed from now on, by anybody, leads to a wake sooner or later. */
  listen(): Promise<void>
  /** These streams have new entries: wakes our own followers at once and those of others soon. */
  tell(streams: readonly string[]): void
  /** What is yet to be told is told. */
  close(): Promise<void>
}

/** Between two notifications of one process: each costs about as much as a commit, and under load one tells of many. */
const PAUSE_MS = 25
/** A process may die between its commit and the notification, so followers look by themselves this often. */
const LOOK_MS = 5000
/** How often a listener tries to come back. */
const REJOIN_MS = 250
/** Postgres takes just under 8,000 bytes. */
const MAX_PAYLOAD = 7900

/**
 * By LISTEN and NOTIFY, on connections of their own: inside the commit, a NOTIFY would make every commit of the database wait for the one before.
 * The listening connection exists while somebody follows.
 */
export function postgresNews(
  connection: PostgresConnection,
  channel: string,
  followers: Pick<Followers, 'wake' | 'wakeAll' | 'any'>,
  clock: Clock,
): News {
  const self = systemClock.uuid() // clocks of tests give the same ids to everybody
  const closing = new AbortController()
  let untold = new Set<string>()
  let telling: Promise<void> | undefined
  let ear: PoolClient | undefined
  let joining: Promise<void> | undefined
  let alarm = new AbortController()

  async function tellOthers(): Promise<void> {
    while (untold.size > 0) {
      const payload = payloadOf(self, [...untold])
      untold = new Set()
      await connection
        .ask({ name: 'mplp.notify', text: 'select pg_notify($1, $2)' }, [channel, payload])
        .catch(() => undefined) // they look by themselves before long
      await slept(clock, PAUSE_MS, closing.signal)
    }
    telling = undefined
  }

  function hear(payload: string): void {
    const [from, streams] = [payload.slice(0, self.length), payload.slice(self.length)]
    if (from === self) return
    if (streams === '') followers.wakeAll()
    else followers.wake(JSON.parse(streams))
  }

  function lose(client: PoolClient): void {
    if (ear !== client) return
    ear = undefined
    client.release(true)
    alarm.abort()
  }

  async function join(): Promise<void> {
    const client = await connection.take()
    let lost = false
    const leave = () => {
      lost = true
      lose(client)
    }
    client.on('notification', (message) => hear(message.payload ?? ''))
    client.once('error', leave).once('end', leave)
    try {
      await connection.answer(client, { text: `listen "${channel}"` })
    } catch (error) {
      client.release(true)
      throw connection.failed(error)
    }
    if (lost || closing.signal.aborted) client.release(true)
    else ear = client
  }

  /** Keeps the ear open while somebody follows. */
  async function tend(): Promise<void> {
    while (!closing.signal.aborted) {
      alarm = new AbortController()
      await slept(clock, ear === undefined ? REJOIN_MS : LOOK_MS, alarm.signal)
      if (closing.signal.aborted) return
      if (!followers.any) return drop()
      const client = ear
      if (client === undefined)
        await join().catch(() => undefined) // the server is away: so it is for those who read
      else void connection.answer(client, { text: 'select' }).catch(() => lose(client)) // whoever only listens would not notice that the other side is gone
      followers.wakeAll()
    }
  }

  function drop(): void {
    const client = ear
    ear = undefined
    joining = undefined
    client?.release(true)
  }

  return {
    listen() {
      joining ??= join()
        .catch(() => undefined) // it is tried again, and whoever reads is told
        .then(() => void tend())
      return joining
    },
    tell(streams) {
      if (streams.length === 0) return
      followers.wake(streams)
      for (const stream of streams) untold.add(stream)
      telling ??= tellOthers()
    },
    async close() {
      closing.abort()
      alarm.abort()
      await telling
      await joining
      drop()
    },
  }
}

/** Who tells, then the streams; nothing means all of them. */
function payloadOf(self: string, streams: readonly string[]): string {
  const payload = self + JSON.stringify(streams)
  return Buffer.byteLength(payload) <= MAX_PAYLOAD ? payload : self
}
