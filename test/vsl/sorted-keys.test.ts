import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { byBytes, shelvedKeys, sortedKeys } from '../../src/vsl/sorted-keys.ts'

const part = fc.constantFrom('a', 'ab', 'a-b', 'b', 'é', '\u{1F600}', '\uE000', '')
const key = fc.oneof(
  fc.tuple(part, part, part).map((parts) => parts.join('/')),
  fc.constantFrom('a', 'ab', 'a-b', 'b'),
)
const deed = fc.oneof(
  { weight: 3, arbitrary: fc.record({ what: fc.constant('add' as const), key }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('delete' as const), key }) },
  {
    weight: 2,
    arbitrary: fc.record({
      what: fc.constant('page' as const),
      key: fc.oneof(key, fc.constant('')),
      after: fc.option(key, { nil: undefined }),
      limit: fc.integer({ min: 1, max: 5 }),
    }),
  },
)

describe.each([
  ['sorted', sortedKeys],
  ['shelved', shelvedKeys],
])('%s keys', (_, make) => {
  it('are walked in the order of their bytes, whatever came and went before', () => {
    fc.assert(
      fc.property(fc.uniqueArray(key), fc.array(deed, { maxLength: 60 }), (first, deeds) => {
        const there = new Set(first)
        const keys = make(first)
        for (const one of deeds) {
          if (one.what === 'page') {
            const expected = [...there]
              .filter((k) => k.startsWith(one.key) && (one.after === undefined || byBytes(k, one.after) > 0))
              .sort(byBytes)
            expect(keys.page(one.key, one.after, one.limit)).toEqual(expected.slice(0, one.limit))
          } else if (one.what === 'add') {
            if (!there.has(one.key)) keys.add(one.key)
            there.add(one.key)
          } else if (there.delete(one.key)) keys.delete(one.key)
        }
      }),
      { numRuns: 2_000 },
    )
  })
})
