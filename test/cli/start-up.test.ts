import { describe, expect, it } from 'vitest'
import { VERBS } from '../../src/cli/verbs.ts'
import { resolved, sourceFiles } from '../repository/imports.ts'

const files = new Map(sourceFiles('src').map((file) => [file.path, file]))

/** Every file and package that is loaded before the first line of these runs. */
function loadedBy(...starts: readonly string[]): readonly string[] {
  const loaded = new Set<string>()
  const load = (name: string) => {
    if (loaded.has(name)) return
    loaded.add(name)
    for (const { from, when } of files.get(name)?.imports ?? [])
      if (when === 'start') load(from.startsWith('.') ? resolved(name, from) : from)
  }
  for (const start of starts) load(start)
  return [...loaded]
}
const notOurs = (names: readonly string[]) =>
  names.filter((name) => !name.startsWith('src/') && !name.startsWith('node:'))

describe('starting up', () => {
  it('loads the words and nothing of what they do', () => {
    const loaded = loadedBy('src/cli/main.ts', 'src/cli/version.ts')
    expect(notOurs(loaded)).toEqual(['commander'])
    expect(loaded.filter((name) => name.startsWith('src/') && !name.startsWith('src/cli/')).sort()).toEqual([
      'src/protocol/errors.ts',
      'src/protocol/first-of.ts',
      'src/protocol/version.ts',
    ])
    expect(loaded.length).toBeLessThan(12)
  })

  it('loads what runs plans only for verbs that run something', () => {
    for (const verb of ['list', 'show', 'why', 'history', 'graph', 'events', 'store-stats', 'snapshot-list']) {
      const loaded = loadedBy(`src/cli/${verb}.ts`)
      expect(loaded, verb).not.toContain('src/orchestrator/runtime.ts')
      expect(notOurs(loaded), verb).toEqual([])
    }
  })

  it('has a file for every verb', () => {
    for (const { usage } of VERBS) {
      const words = usage.split(' ').filter((word) => !/^[<[]/.test(word))
      expect(files.has(`src/cli/${words.join('-')}.ts`), usage).toBe(true)
    }
  })
})
