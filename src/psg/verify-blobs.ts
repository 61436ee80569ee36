import { Corrupt } from '../protocol/errors.ts'
import { type Digest, digestOf, isObject, type Json, type JsonObject } from '../protocol/json.ts'
import type { Backend } from '../vsl/backend.ts'
import type { EntryChange, FieldChange, Kind } from './change.ts'
import { isFieldChange } from './field-change.ts'
import type { Found } from './finding.ts'
import { placeOf } from './node.ts'

/** Blobs, each with the first key that named it. */
export type NamedBlobs = Map<Digest, string>

/** Adds what a change names. What was named once stays needed: history and ways back lead to it. */
export function nameBlobs(change: EntryChange, named: NamedBlobs): void {
  const data = isFieldChange(change) ? { ...change.now, ...newItems(change) } : change.after?.data
  const digests = (data && NAMES[placeOf(change.key).kind]?.(data)) ?? []
  for (const digest of digests)
    if (typeof digest === 'string' && !named.has(digest as Digest)) named.set(digest as Digest, change.key)
}

/** Of lists that grew. */
const newItems = ({ grew = {} }: FieldChange): JsonObject =>
  Object.fromEntries(Object.entries(grew).map(([field, { items }]) => [field, items]))

const NAMES: { readonly [K in Kind]?: (data: JsonObject) => readonly (Json | undefined)[] } = {
  action: ({ output_blob, resume_blob, inverse, acted = [] }) => [
    output_blob,
    resume_blob,
    ...[{ inverse }, ...(acted as readonly JsonObject[])].map(({ inverse }) => broughtBackBy(inverse)),
  ],
  file: (data) => [contentOf(data), contentOf(data.agreed)],
  finding: ({ believed, observed, diff_blob }) => [contentOf(believed), contentOf(observed), diff_blob],
}

/** Of a file that was too large to keep only the digest is known. */
const contentOf = (file: Json | undefined): Json | undefined =>
  isObject(file) && file.kept === true ? file.digest : undefined

/** Taking a write or a delete back puts there what was there before. */
const broughtBackBy = (inverse: Json | undefined): Json | undefined =>
  isObject(inverse) && inverse.action_type === 'file_operation' && isObject(inverse.params)
    ? inverse.params.content_digest
    : undefined

/** Reads each of them: what large outputs and files were is told by nothing else. */
export async function checkBlobs(store: Backend, named: NamedBlobs, found: Found): Promise<void> {
  for (const [digest, key] of named) {
    const bytes = isDigest(digest) ? await bytesOf(store, digest) : undefined
    if (bytes === undefined) found('blob.missing', key, `${key} names the blob ${digest}, which is not there`)
    else if (bytes === 'damaged' || digestOf(bytes) !== digest)
      found('blob.differs', key, `the blob ${digest}, which ${key} names, is not what its digest says`)
  }
}

/** Some stores see for themselves. */
const bytesOf = (store: Backend, digest: Digest): Promise<Uint8Array | 'damaged' | undefined> =>
  store.getBlob(digest).catch((error: unknown) => {
    if (error instanceof Corrupt) return 'damaged'
    throw error
  })

const isDigest = (digest: string): boolean => /^sha256:[0-9a-f]{64}$/.test(digest)
