import type { Digest, Json } from '../protocol/json.ts'
import type { Source } from '../vsl/copy.ts'
import { recordKey } from './flow-record.ts'

const DIGEST = /sha256:[0-9a-f]{64}/g

/** Every blob that something so much as mentions. */
export function* digestsIn(value: Json): Iterable<Digest> {
  for (const [digest] of JSON.stringify(value).matchAll(DIGEST)) yield digest as Digest
}

/** What somebody keeps outside the journals, where blobs may be mentioned, too. */
export async function* keptAside(store: Source): AsyncIterable<Json> {
  for await (const [, value] of store.scan(recordKey(''))) yield value
  for await (const [, value] of store.scan('', { own: true })) yield value
}
