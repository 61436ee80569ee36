import { describe, expect, it } from 'vitest'
import { parse, resolved, sourceFiles } from './imports.ts'
import { breaches } from './walls.ts'

it('keeps every import and every reading of the outside world where it belongs', () => {
  const files = sourceFiles('src')
  expect(files.length).toBeGreaterThan(5)
  expect(breaches(files)).toEqual([])
})

it('keeps the published suites free of what is not published', () => {
  const wrong = sourceFiles('test/contracts').flatMap(({ path, imports }) =>
    imports
      .filter(({ from }) =>
        from.startsWith('.') ? !isPublished(resolved(path, from)) : !/^(node:|vitest$)/.test(from),
      )
      .map(({ from, line }) => `${path}:${line} imports ${from}`),
  )
  expect(wrong).toEqual([])
})

describe('the walls', () => {
  const told = (path: string, text: string) => breaches([parse(path, text)])

  it.each([
    [
      'a store that imports a bus',
      'src/vsl/file.ts',
      "import { b } from '../bus/transport.ts'",
      'vsl may not import bus',
    ],
    [
      'a type of an upper room',
      'src/psg/view.ts',
      "import type { T } from '../orchestrator/tick.ts'",
      'psg may not import orchestrator',
    ],
    ['a re-export of an upper room', 'src/ael/ael.ts', "export * from '../psg/graph.ts'", 'ael may not import psg'],
    [
      'a lazy import of an upper room',
      'src/ael/ael.ts',
      "const p = await import('../psg/graph.ts')",
      'ael may not import psg',
    ],
    [
      'an import from the tests',
      'src/vsl/file.ts',
      "import { t } from '../../test/support/child.ts'",
      'not part of the package',
    ],
    ['a room without a rule', 'src/attic/box.ts', "import { a } from '../protocol/json.ts'", 'no rule'],
    ['a client library elsewhere', 'src/psg/load.ts', "const { Redis } = await import('ioredis')", 'imports ioredis'],
    ['a client library at the start', 'src/vsl/postgres.ts', "import pg from 'pg'", 'loads pg at its start'],
    ['graphology outside its file', 'src/psg/state.ts', "import Graph from 'graphology'", 'imports graphology'],
    [
      'node-diff3 outside its file',
      'src/drift/scan.ts',
      "import { diff3Merge } from 'node-diff3'",
      'imports node-diff3',
    ],
    [
      'a part of a scoped package',
      'src/psg/load.ts',
      "import '@modelcontextprotocol/sdk/client/index.js'",
      '@modelcontextprotocol/sdk',
    ],
    ['an unknown package', 'src/psg/load.ts', "import _ from 'lodash'", 'imports lodash'],
    ['the environment', 'src/compose.ts', 'const home = process.env.HOME', 'reads process.env'],
    ['the environment by name', 'src/compose.ts', "import { env } from 'node:process'", 'reads env'],
    ['the time', 'src/vsl/file.ts', 'const at = Date.now()', 'reads Date.now'],
    ['the time in a date', 'src/vsl/file.ts', 'const at = new Date()', 'reads new Date()'],
    ['luck', 'src/ael/with-retry.ts', 'const wait = 100 * Math.random()', 'reads Math.random'],
    ['an id', 'src/psg/node.ts', "import { randomUUID } from 'node:crypto'", 'reads randomUUID'],
  ])('tell of %s', (_what, path, text, reason) => {
    expect(told(path, text)).toEqual([expect.stringContaining(reason)])
  })

  it.each([
    ['a client’s types at the start', 'src/vsl/postgres.ts', "import type { Pool } from 'pg'"],
    ['a client when it is needed', 'src/vsl/postgres.ts', "const { default: pg } = await import('pg')"],
    ['a time that was handed in', 'src/vsl/file.ts', 'const at = new Date(clock.now())'],
    ['the clock itself', 'src/protocol/clock.ts', 'export const now = () => Date.now()'],
    ['words about imports', 'src/vsl/file.ts', "// import pg from 'pg'\nconst text = `import('pg')`"],
  ])('are silent about %s', (_what, path, text) => {
    expect(told(path, text)).toEqual([])
  })

  it('tell of a cycle once', () => {
    const files = [
      parse('src/psg/a.ts', "import { b } from './b.ts'"),
      parse('src/psg/b.ts', "import { c } from './c.ts'"),
      parse('src/psg/c.ts', "const { a } = await import('./a.ts')"),
    ]
    expect(breaches(files)).toEqual(['src/psg/a.ts -> src/psg/b.ts -> src/psg/c.ts -> src/psg/a.ts is a cycle'])
  })

  it('are silent about files that only know each other’s types', () => {
    const files = [
      parse('src/psg/a.ts', "import { b } from './b.ts'"),
      parse('src/psg/b.ts', "import type { A } from './a.ts'"),
    ]
    expect(breaches(files)).toEqual([])
  })
})

const isPublished = (path: string) => /^(src|test\/contracts)\//.test(path)
