import type { Again, BatchMember, PreparedWrite, Verdict } from './grouped.ts'
import type { PostgresConnection } from './postgres-connection.ts'

/** Sends batches, each in one statement and one round trip. */
export function batchSender(connection: PostgresConnection, schema: string, base: string): BatchMember['commitBatch'] {
  const statement = {
    name: `${schema}.commit`,
    text: `select member, verdict, number, met from "${schema}".commit_batch($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
  }
  return async (writes) => {
    const order = lockOrder(writes)
    const values = [base, ...parameters(order.map((i) => writes[i]!))]
    const refusals = await connection.once<Refusal>(writes[0]!.stream, statement, values)
    const verdicts = writes.map((): Verdict | Again => ({ kind: 'landed' }))
    for (const refusal of refusals) verdicts[order[refusal.member - 1]!] = verdictOf(refusal)
    return verdicts
  }
}

interface Refusal {
  /** Counted from 1, as the server does. */
  readonly member: number
  readonly verdict: Exclude<(Verdict | Again)['kind'], 'landed'>
  readonly number: string
  readonly met: string
}

/** Every process takes its locks in the order of the streams, so that none waits in a circle. */
const lockOrder = (writes: readonly PreparedWrite[]): number[] =>
  writes.map((_, i) => i).sort((a, b) => (writes[a]!.stream < writes[b]!.stream ? -1 : 1))

/** Columns, not rows: the server unnests them. Inserts come first, deletes have no text; owners are counted from 1. */
function parameters(writes: readonly PreparedWrite[]): unknown[] {
  const keys: string[] = []
  const texts: (string | null)[] = []
  const owners: number[] = []
  const add = (key: string, text: string | null, owner: number) => {
    keys.push(key)
    texts.push(text)
    owners.push(owner)
  }
  for (const [i, { inserts }] of writes.entries()) for (const [key, text] of inserts) add(key, text, i + 1)
  const claims = keys.length
  for (const [i, { puts, deletes }] of writes.entries()) {
    for (const [key, text] of puts) add(key, text, i + 1)
    for (const key of deletes) add(key, null, i + 1)
  }
  return [
    writes.map(({ stream }) => stream),
    writes.map(({ expected }) => expected),
    writes.map(({ fence }) => fence ?? null),
    writes.map(({ entry }) => entry ?? null),
    claims,
    keys,
    texts,
    owners,
  ]
}

function verdictOf({ verdict, number, met }: Refusal): Verdict | Again {
  switch (verdict) {
    case 'fenced':
      return { kind: verdict, token: Number(number) }
    case 'conflict':
      return { kind: verdict, actual: Number(number) }
    case 'exists':
      return { kind: verdict, key: met }
    case 'again':
      return { kind: verdict }
    default:
      return verdict satisfies never
  }
}
