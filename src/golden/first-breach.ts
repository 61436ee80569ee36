import { checkInvariants, type PathInvariant, type Scope } from '../protocol/invariants.ts'
import type { Json, JsonObject } from '../protocol/json.ts'
import type { DocumentKind } from '../psg/document.ts'

/** The documents of a flow at its end, by kind, oldest first. */
export type Shown = ReadonlyMap<DocumentKind, readonly Json[]>

/** The first place where an invariant does not hold, in words. Each is about every document of its kind, or about every event. */
export function firstBreach(
  invariants: readonly PathInvariant[],
  shown: Shown,
  events: readonly JsonObject[],
): string | undefined {
  for (const invariant of invariants) {
    const { scope } = invariant
    const about = scope === 'event' ? events : (shown.get(scope as DocumentKind) ?? [])
    for (const [place, one] of about.entries()) {
      const [breach] = checkInvariants([invariant], { ...around(one, shown), [scope]: one })
      if (!breach) continue
      const path = place === 0 || scope === 'event' ? breach.path : breach.path.replace(scope, `${scope}-${place + 1}`)
      return `invariant ${breach.id}: ${path} ${breach.message}, found ${breach.found}`
    }
  }
  return undefined
}

/** What `eq` means by the name of a kind: the document that this one names, or the oldest. */
function around(one: Json, shown: Shown): { readonly [S in Scope]?: Json } {
  const subjects: { [S in Scope]?: Json } = {}
  for (const [kind, documents] of shown) {
    const named = idIn(one, kind) ?? (fieldOf(one, 'target_type') === kind ? fieldOf(one, 'target_id') : undefined)
    const meant = documents.find((document) => idIn(document, kind) === named) ?? documents[0]
    if (meant !== undefined) subjects[kind] = meant
  }
  return subjects
}

const idIn = (one: Json, kind: DocumentKind): unknown => fieldOf(one, `${kind}_id`)
/** A driver may give anything for a document. */
const fieldOf = (one: Json, name: string): unknown => Object(one)[name]
