import type { Again, BatchMember, PreparedWrite, Verdict } from './grouped.ts'
import { numberArray, textArray } from './postgres-arrays.ts'
import type { PostgresConnection } from './postgres-connection.ts'
import { isNullRefused } from './postgres-errors.ts'
import { commitEntry, commitLone } from './postgres-tables.ts'

/** Sends batches, each in one statement and one round trip; only a lone write that is refused takes a second one, to be told why. */
export function batchSender(connection: PostgresConnection, schema: string, base: string): BatchMember['commitBatch'] {
  const batch = {
    name: `${schema}.commit`,
    text: `select "${schema}".commit_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) as refused`,
  }
  const forgetting = {
    name: `${schema}.forget`,
    text: `select "${schema}".forget_stream($1, $2, $3, $4, $5, $6, $7, $8, $9) as refused`,
  }
  const lone = { name: `${schema}.lone`, text: commitLone(schema) }
  const entryOnly = { name: `${schema}.entry`, text: commitEntry(schema) }

  const asked = (statement: typeof batch, { stream }: PreparedWrite, values: readonly unknown[]) =>
    connection.once<{ refused: string | null }>(stream, statement, [base, ...values])

  async function landsAlone({ stream, expected, fence, entry, inserts, puts }: PreparedWrite): Promise<boolean> {
    if (inserts.length + puts.length === 0)
      return (await connection.once(stream, entryOnly, [base, stream, expected, fence, entry])).rowCount === 1
    const rows = [...inserts, ...puts].sort(([a], [b]) => (a < b ? -1 : 1))
    const keys = textArray(rows.map(([key]) => key))
    const texts = textArray(rows.map(([, text]) => text))
    const claims = textArray(inserts.map(([key]) => key))
    try {
      const values = [base, stream, expected, fence, entry, keys, texts, claims]
      return (await connection.once(stream, lone, values)).rowCount === rows.length
    } catch (error) {
      if (isNullRefused(error)) return false
      throw error
    }
  }

  return async (writes) => {
    const [first] = writes
    if (first && writes.length === 1 && isUsual(first) && (await landsAlone(first))) return [LANDED]
    const order = lockOrder(writes)
    const sorted = order.map((i) => writes[i]!)
    const { rows } = await (first?.forget
      ? asked(forgetting, first, [first.stream, first.expected, first.fence, ...keyParameters(sorted)])
      : asked(batch, first!, parameters(sorted)))
    const verdicts = writes.map((): Verdict | Again => LANDED)
    const refused: readonly Refused[] = JSON.parse(rows[0]?.refused ?? '[]')
    for (const { member, ...verdict } of refused) verdicts[order[member - 1]!] = verdict
    return verdicts
  }
}

/** Neither deletes nor forgets, on a stream that is probably there: the first entry of a stream finds no head yet. */
const isUsual = ({ expected, entry, inserts, puts, deletes, forget }: PreparedWrite): boolean =>
  deletes.length === 0 && !forget && (entry === undefined ? puts.length + inserts.length > 0 : expected > 0)

const LANDED: Verdict = { kind: 'landed' }

/** Members are counted from 1, as the server does. */
type Refused = (Exclude<Verdict, { kind: 'landed' }> | Again) & { readonly member: number }

/** Every process takes its locks in the order of the streams, so that none waits in a circle. */
const lockOrder = (writes: readonly PreparedWrite[]): number[] =>
  writes.map((_, i) => i).sort((a, b) => (writes[a]!.stream < writes[b]!.stream ? -1 : 1))

/** The arguments of `commit_batch` but the first: columns, not rows, as the server unnests them. */
const parameters = (writes: readonly PreparedWrite[]): unknown[] => [
  textArray(writes.map(({ stream }) => stream)),
  numberArray(writes.map(({ expected }) => expected)),
  numberArray(writes.map(({ fence }) => fence)),
  textArray(writes.map(({ entry }) => entry)),
  ...keyParameters(writes),
]

/** Those of them that tell the keys. */
function keyParameters(writes: readonly PreparedWrite[]): unknown[] {
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
