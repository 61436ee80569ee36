import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { schemas } from '../../src/protocol/generated/schemas.ts'
import type { Kind, ModuleName } from '../../src/protocol/types.ts'
import { problems } from '../../src/protocol/validate.ts'
import { arbitraryOf, documentOf } from '../support/arbitraries.ts'
import { ID } from './samples.ts'

const modules = [
  'context',
  'plan',
  'confirm',
  'trace',
  'role',
  'extension',
  'dialog',
  'collab',
  'core',
  'network',
] as const

describe('an arbitrary document', () => {
  it.each(Object.keys(schemas) as Kind[])('of %s is valid', (kind) => {
    fc.assert(
      fc.property(arbitraryOf(kind), (document) => {
        expect(problems(kind, document)).toEqual([])
      }),
      { numRuns: 30 },
    )
  })

  it.each(modules)('of %s keeps what is bound', (kind: ModuleName) => {
    fc.assert(
      fc.property(documentOf(kind, { [`${kind}_id`]: ID }), (document) => {
        expect(document).toMatchObject({ [`${kind}_id`]: ID })
        expect(problems(kind, document)).toEqual([])
      }),
      { numRuns: 30 },
    )
  })

  it('has plans whose steps depend on earlier steps only', () => {
    fc.assert(
      fc.property(documentOf('plan'), ({ steps }) => {
        const seen = new Set<string>()
        for (const { step_id, dependencies = [] } of steps) {
          expect(dependencies.every((id) => seen.has(id))).toBe(true)
          expect(seen.has(step_id)).toBe(false)
          seen.add(step_id)
        }
      }),
    )
  })

  it('has traces with a root span of their own and segments below earlier ones', () => {
    fc.assert(
      fc.property(documentOf('trace', { context_id: ID }), ({ trace_id, root_span, segments = [] }) => {
        expect(root_span).toMatchObject({ trace_id, context_id: ID })
        const seen = new Set<string | undefined>([undefined])
        for (const { segment_id, parent_segment_id } of segments) {
          expect(seen.has(parent_segment_id)).toBe(true)
          seen.add(segment_id)
        }
      }),
    )
  })
})
