import type { Again, BatchMember, PreparedWrite, Verdict } from './grouped.ts'
import { numberArray, textArray } from './postgres-arrays.ts'
import type { PostgresConnection } from './postgres-connection.ts'

/** Sends batches, each in one statement and one round trip. */
export function batchSender(connection: PostgresConnection, schema: string, base: string): BatchMember['commitBatch'] {
  const statement = {
    name: `${schema}.commit`,
    text: `select "${schema}".commit_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) as refused`,
  }
  return async (writes) => {
    const order = lockOrder(writes)
    const values = [base, ...parameters(order.map((i) => writes[i]!))]
    const [row] = await connection.once<{ refused: string | null }>(writes[0]!.stream, statement, values)
    const verdicts = writes.map((): Verdict | Again => LANDED)
    if (row?.refused) {
      const refused: readonly Refused[] = JSON.parse(row.refused)
      for (const { member, ...verdict } of refused) verdicts[order[member - 1]!] = verdict
    }
    return verdicts
  }
}

const LANDED: Verdict = { kind: 'landed' }

/** Members are counted from 1, as the server does. */
type Refused = (Exclude<Verdict, { kind: 'landed' }> | Again) & { readonly member: number }

/** Every process takes its locks in the order of the streams, so that none waits in a circle. */
const lockOrder = (writes: readonly PreparedWrite[]): number[] =>
  writes.map((_, i) => i).sort((a, b) => (writes[a]!.stream < writes[b]!.stream ? -1 : 1))

/** The arguments of `commit_batch` but the first: columns, not rows, as the server unnests them. */
function parameters(writes: readonly PreparedWrite[]): unknown[] {
  const rows: Row[] = []
  const claims: Row[] = []
  for (const [i, { inserts, puts, deletes }] of writes.entries()) {
    const owner = i + 1
    for (const [key, text] of inserts) claims.push({ key, text, owner })
    for (const [key, text] of puts) rows.push({ key, text, owner })
    for (const key of deletes) rows.push({ key, text: '', owner })
  }
  for (const claim of claims) rows.push(claim)
  rows.sort((a, b) => (a.key < b.key ? -1 : 1))
  return [
    textArray(writes.map(({ stream }) => stream)),
    numberArray(writes.map(({ expected }) => expected)),
    numberArray(writes.map(({ fence }) => fence)),
    textArray(writes.map(({ entry }) => entry)),
    textArray(rows.map(({ key }) => key)),
    textArray(rows.map(({ text }) => text)),
    numberArray(rows.map(({ owner }) => owner)),
    textArray(claims.map(({ key }) => key)),
    numberArray(claims.map(({ owner }) => owner)),
  ]
}

interface Row {
  readonly key: string
  readonly text: string
  /** The member that writes it, counted from 1. */
  readonly owner: number
}
