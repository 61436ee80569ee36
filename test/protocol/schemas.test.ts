import { describe, expect, it } from 'vitest'
import { schemas } from '../../src/protocol/generated/schemas.ts'
import type { Schema } from '../../src/protocol/schema.ts'
import { shownPath } from '../../src/protocol/shown.ts'
import type { Kind } from '../../src/protocol/types.ts'
import { isValid, problems, validate } from '../../src/protocol/validate.ts'
import { inner, type Shape, shapes } from './facts.ts'
import { fieldsOf, full, ID, minimal, samplesOf, shapesIn } from './samples.ts'

const kinds = Object.keys(shapes).filter((name) => !inner.has(name)) as Kind[]

describe('the schemas', () => {
  it('are those of the facts, no more and no fewer', () => {
    expect(Object.keys(schemas).sort()).toEqual([...kinds, 'identifier'].sort())
  })

  it('accept a lower-case UUID v4 as an identifier and nothing else', () => {
    expect(isValid('identifier', ID)).toBe(true)
    for (const [value, , rule] of samplesOf('id').bad) {
      expect(problems('identifier', value)).toMatchObject([{ path: '', rule }])
    }
  })
})

describe.each(kinds)('the schema of %s', (kind) => {
  const places = [...shapesIn(kind)]

  it('accepts a document with everything, and one with nothing but the required', () => {
    expect(problems(kind, full(kind))).toEqual([])
    expect(problems(kind, minimal(kind))).toEqual([])
    expect(validate(kind, full(kind))).toEqual(full(kind))
  })

  it('refuses whatever is not an object', () => {
    for (const value of [undefined, null, true, 0, '', 'x', [], [full(kind)], () => full(kind), Symbol('x'), 1n]) {
      expect(problems(kind, value)).toMatchObject([{ path: '', rule: 'type' }])
    }
  })

  it('has the members, required lists and enums of the facts, no more and no fewer', () => {
    expect(skeleton(schemas[kind])).toEqual(skeletonOfFacts(kind))
  })

  it('refuses a document without a required member, and accepts one without an optional member', () => {
    for (const { shape, at } of places) {
      for (const { name, required } of fieldsOf(shape)) {
        const found = problems(
          kind,
          changed(kind, at, (object) => delete object[name]),
        )
        const path = shownPath([...at, name])
        expect(found, path).toEqual(required ? [{ path, rule: 'required', message: 'is required' }] : [])
      }
    }
  })

  it('accepts every value that a member may have', () => {
    for (const { shape, at } of places) {
      for (const { name, type } of fieldsOf(shape)) {
        for (const value of samplesOf(type).good) {
          const found = problems(
            kind,
            changed(kind, at, (object) => set(object, name, value)),
          )
          expect(found, `${shownPath([...at, name])} = ${JSON.stringify(value)}`).toEqual([])
        }
      }
    }
  })

  it('refuses every value that a member may not have, naming path and rule', () => {
    for (const { shape, at } of places) {
      for (const { name, type } of fieldsOf(shape)) {
        for (const [value, below, rule] of samplesOf(type).bad) {
          const document = changed(kind, at, (object) => set(object, name, value))
          const path = shownPath([...at, name]) + below
          expect(problems(kind, document), `${path} = ${String(value)}`).toContainEqual(
            expect.objectContaining({ path, rule }),
          )
          expect(isValid(kind, document)).toBe(false)
        }
      }
    }
  })

  it('is closed exactly where the protocol is', () => {
    for (const { shape, at } of places) {
      for (const key of ['surprise', '__proto__', 'constructor', '$comment', 'two words', '']) {
        const document = changed(kind, at, (object) => set(object, key, 1))
        const extra = {
          path: shownPath([...at, key]),
          rule: 'extra_forbidden',
          message: 'is not allowed here',
          found: '1',
        }
        expect(problems(kind, document), `${shape} with ${key}`).toEqual((shapes[shape] as Shape).open ? [] : [extra])
      }
    }
  })
})

/** A full document, changed in one of the objects inside it. */
function changed(
  kind: string,
  at: readonly (string | number)[],
  change: (object: Record<string, unknown>) => void,
): unknown {
  const document = structuredClone(full(kind))
  let object: Record<string | number, unknown> = document
  for (const step of at) object = object[step] as Record<string, unknown>
  change(object)
  return document
}

/** As JSON.parse does: also a member called __proto__ is a member. */
function set(object: object, name: string, value: unknown): void {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true })
}

/** Every member by its path: `!` where it is required, and its values where they are listed. */
function skeleton(schema: Schema, path = ''): Record<string, string> {
  if (schema.$ref !== undefined) return skeleton(schemas[schema.$ref], path)
  const found: Record<string, string> = {}
  for (const branch of schema.allOf ?? []) Object.assign(found, merged(found, skeleton(branch, path)))
  for (const [name, member] of Object.entries(schema.properties ?? {})) {
    const at = `${path}.${name}`
    found[at] = `${schema.required?.includes(name) ? '!' : ''}${valuesOf(member)}`
    Object.assign(found, skeleton(member.items ?? member, at))
  }
  return found
}

/** A later branch of an allOf narrows an earlier one. */
function merged(earlier: Record<string, string>, later: Record<string, string>): Record<string, string> {
  const narrowed = Object.entries(later).map(([path, text]) => {
    const before = earlier[path] ?? ''
    const required = before.startsWith('!') || text.startsWith('!') ? '!' : ''
    return [path, required + (text.replace('!', '') || before.replace('!', ''))]
  })
  return Object.fromEntries(narrowed)
}

function valuesOf(schema: Schema): string {
  if (schema.const !== undefined) return schema.const
  return (schema.items ?? schema).enum?.join('|') ?? ''
}

function skeletonOfFacts(kind: string): Record<string, string> {
  const found: Record<string, string> = {}
  for (const { shape, at } of shapesIn(kind)) {
    const path = at.filter((step) => typeof step === 'string')
    for (const { name, required, type } of fieldsOf(shape)) {
      const values = type.includes('|') ? type.replace(/\[.*\]/, '') : type.startsWith('=') ? type.slice(1) : ''
      found[['', ...path, name].join('.')] = `${required ? '!' : ''}${values}`
    }
  }
  return found
}
