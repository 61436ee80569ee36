import type { StoreName } from '../contestants/contestant.ts'
import type { Entrant } from './contest.ts'

/** Who can do whole plans on which store. The first names the limit that the others are held against. */
export const ENTRANTS: Readonly<Record<Exclude<StoreName, 'own'>, readonly Entrant[]>> = {
  memory: [{ name: 'ours' }, { name: 'xstate' }, { name: 'langgraph' }, { name: 'mastra' }],
  sqlite: [
    { name: 'raw' },
    { name: 'floor' },
    { name: 'ours' },
    { name: 'xstate' },
    { name: 'langgraph' },
    { name: 'mastra' },
  ],
  postgres: [
    { name: 'raw' },
    { name: 'floor' },
    { name: 'ours' },
    { name: 'dbos' },
    { name: 'restate', store: 'own' },
    { name: 'langgraph' },
    { name: 'mastra' },
  ],
  redis: [{ name: 'raw' }, { name: 'floor' }, { name: 'ours' }, { name: 'bullmq' }],
}

export const STORES = Object.keys(ENTRANTS) as (keyof typeof ENTRANTS)[]

export const STORE_TITLES: Readonly<Record<StoreName, string>> = {
  memory: 'in memory',
  sqlite: 'on SQLite, synchronous FULL',
  postgres: 'on Postgres, fsync on',
  redis: 'on Redis, appendfsync always',
  own: 'on a store of its own',
}
