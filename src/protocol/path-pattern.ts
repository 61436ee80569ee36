import type { Field } from './fields.ts'

/** What could match something: no path begins or ends with a slash, or leads back. */
export const A_PATTERN: Field = {
  says: 'a pattern of paths from the root on, without .. and without a slash at its end (dist is a folder, dist/** what lies in it)',
  rule: 'pattern',
  fits: (value) =>
    typeof value === 'string' &&
    fromRoot(value)
      .split('/')
      .every((name) => !['', '.', '..'].includes(name)),
}

/** A path or a pattern as paths are told: without a `./` before it. */
export const fromRoot = (path: string): string => path.replace(/^\.\//, '')
