import { isObject, type Json } from '../protocol/json.ts'
import { DOCUMENT_KINDS, type DocumentKind } from '../psg/document.ts'

/** The documents of `input/`, by file name without ending. */
export type Inputs = { readonly [name: string]: Json }

/** Which document a file holds, by its name: `plan.json`, `plan-2.json`. */
export function kindOfFile(name: string): DocumentKind | undefined {
  const kind = /^([a-z]+)(?:-.+)?$/.exec(name)?.[1]
  return (DOCUMENT_KINDS as readonly string[]).includes(kind ?? '') ? (kind as DocumentKind) : undefined
}

/** Is it the name of a document that can be there: a kind, or a kind and its place from 1 on? */
export const isCounted = (name: string): boolean =>
  kindOfFile(name) !== undefined && /^[a-z]+(?:-[1-9]\d*)?$/.test(name)

/** Which of its kind it is, counted from the oldest: `plan` is 0, `plan-2` is 1. */
export const placeOfFile = (name: string): number => Number(/-(\d+)$/.exec(name)?.[1] ?? 1) - 1

/** Those named, or all of them, each with its kind; what is no protocol object is left out. */
export function documentsNamed(
  input: Inputs,
  names: readonly string[] | null,
): readonly (readonly [DocumentKind, Json])[] {
  return (names ?? Object.keys(input)).flatMap((name) => {
    const kind = kindOfFile(name)
    return kind === undefined || input[name] === undefined ? [] : [[kind, withoutComment(input[name])] as const]
  })
}

/** The protocol's own fixtures carry a `$comment` on top, which their schemas refuse. */
export function withoutComment(document: Json): Json {
  if (!isObject(document) || !('$comment' in document)) return document
  const { $comment: _, ...rest } = document
  return rest as Json
}
