import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { describe, expect, it } from 'vitest'
import { outputs } from '../../scripts/generate/outputs.ts'

const root = join(import.meta.dirname, '../..')

describe('what is generated from schemas/mplp', () => {
  it.each([...outputs(root)].map(([path, text]) => [relative(root, path), text]))('is up to date: %s', (path, text) => {
    // Not toBe on the texts: a difference in half a megabyte is no use to anybody.
    const same = readFileSync(join(root, path), 'utf8') === text
    expect(same, 'run: npx tsx scripts/generate-types.ts').toBe(true)
  })
})
