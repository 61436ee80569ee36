import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { EXIT } from '../../src/cli/io.ts'
import { VERBS } from '../../src/cli/verbs.ts'
import { CONFIG_KEYS, configFromEnv } from '../../src/config.ts'
import { ROOT } from '../repository/imports.ts'

const page = (name: string) => readFileSync(join(ROOT, 'docs', name), 'utf8')
/** The rows of a page's tables, each as its cells. */
const rowsOf = (text: string) =>
  [...text.matchAll(/^\|(.*)\|$/gm)].map(([, row]) => row!.split('|').map((cell) => cell.trim()))
const codeIn = (cell = '') => [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code!)

describe('docs/cli.md', () => {
  const rows = rowsOf(page('cli.md'))

  it('has every verb with all of its options, and no other', () => {
    const documented = rows
      .filter(([first]) => first?.startsWith('`'))
      .map(([verb, , options]) => [codeIn(verb), options])
    expect(documented.flatMap(([usages]) => usages).sort()).toEqual(VERBS.map(({ usage }) => usage).sort())
    for (const { usage, options = [] } of VERBS) {
      const [, told] = documented.find(([usages]) => usages!.includes(usage))!
      const flags = codeIn(told as string).filter((code) => code.startsWith('--') && code !== '--json')
      expect(flags.sort(), usage).toEqual(options.map((option) => option.flags).sort())
    }
  })

  it('has every exit code', () => {
    const codes = rows.flatMap(([code]) => (/^\d+$/.test(code!) ? [Number(code)] : []))
    expect(codes).toEqual([...Object.values(EXIT), 130])
  })
})

describe('docs/config.md', () => {
  const rows = rowsOf(page('config.md'))
  const keys = rows.flatMap(([key]) => codeIn(key))

  it('has every key, and no other', () => {
    const known = CONFIG_KEYS.filter((key) => !['mcp.*', 'models.*'].includes(key))
    expect(keys.sort()).toEqual([...known].sort())
  })

  it('names variables that are read', () => {
    const variables = rows.flatMap(([, variable]) => codeIn(variable))
    expect(variables.length).toBeGreaterThan(10)
    for (const name of variables) {
      const key = name.slice('MPLP_'.length).toLowerCase()
      const own = {
        vsl: 'memory:',
        bus: 'memory:',
        encryption_key: 'x'.repeat(43),
        root: '.',
        http_allow: 'localhost',
        off_limits: '[]',
      }
      const text = /_(ms|days)$/.test(key) ? '7' : key in own ? own[key as keyof typeof own] : '{}'
      expect(configFromEnv({ [name]: text })).toHaveProperty(key)
    }
  })
})
