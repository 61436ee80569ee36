import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { expectedExports } from './exports.ts'
import { parse, ROOT, sourceFiles } from './imports.ts'

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const manifest = JSON.parse(read('package.json'))
const lock = JSON.parse(read('package-lock.json'))

describe('package.json', () => {
  it('exports every room and every member, and nothing else', () => {
    expect(manifest.exports).toEqual(expectedExports(sourceFiles('src')))
  })

  it('names a command only if there is one', () => {
    expect(manifest.bin).toEqual(existsSync(join(ROOT, 'src/cli/main.ts')) ? { mplp: './dist/cli/main.js' } : undefined)
  })

  it('has a reason for each of its dependencies in docs/dependencies.md', () => {
    const names = Object.keys({ ...manifest.dependencies, ...manifest.devDependencies, ...manifest.overrides })
    const reasons = read('docs/dependencies.md')
    expect(names.filter((name) => !reasons.includes(`| \`${name}\` |`))).toEqual([])
  })

  it('has no reason left for a dependency that is gone', () => {
    const named = [...read('docs/dependencies.md').matchAll(/^\| `([^`]+)` \|/gm)].map((match) => match[1] as string)
    const known = { ...manifest.dependencies, ...manifest.devDependencies, ...manifest.overrides }
    expect(named.filter((name) => !(name in known))).toEqual([])
  })
})

it('mplp-runtime/testing offers every contract suite', () => {
  const suites = readdirSync(join(ROOT, 'test/contracts')).filter((name) => name.endsWith('-contract.ts'))
  const offered = parse('test/contracts/testing.ts', read('test/contracts/testing.ts')).imports.map(({ from }) => from)
  expect(offered.sort()).toEqual(suites.map((name) => `./${name}`).sort())
})

describe('package-lock.json', () => {
  it('agrees with package.json', () => {
    const { dependencies, devDependencies, engines, bin, peerDependencies } = lock.packages['']
    expect({ dependencies, devDependencies, engines, bin, peerDependencies }).toEqual({
      dependencies: manifest.dependencies,
      devDependencies: manifest.devDependencies,
      engines: manifest.engines,
      bin: manifest.bin && { mplp: 'dist/cli/main.js' },
      peerDependencies: manifest.peerDependencies,
    })
  })

  it('records no address of a registry', () => {
    expect(read('package-lock.json')).not.toMatch(/"resolved"|https?:\/\/[^"]*\.tgz/)
  })

  it('holds the native parts for both kinds of Linux machine', () => {
    for (const [scope, arm, x64] of [
      ['@libsql', 'linux-arm64-gnu', 'linux-x64-gnu'],
      ['@rolldown', 'binding-linux-arm64-gnu', 'binding-linux-x64-gnu'],
      ['@biomejs', 'cli-linux-arm64', 'cli-linux-x64'],
    ]) {
      for (const part of [arm, x64]) expect(Object.keys(lock.packages)).toContain(`node_modules/${scope}/${part}`)
    }
  })
})

describe('the rule for exports', () => {
  const exported = (path: string, text: string) => Object.keys(expectedExports([parse(path, text)]))

  it('asks for a new room and a new member', () => {
    expect(exported('src/bus/bus.ts', '')).toContain('./bus')
    expect(exported('src/bus/kafka.ts', 'export async function kafkaTransport() {}')).toContain('./bus/kafka')
    expect(exported('src/ael/function.ts', 'export const functionAdapter = () => ({})')).toContain('./ael/function')
  })

  it('leaves insides inside', () => {
    expect(exported('src/vsl/backend.ts', 'export interface Backend {}')).not.toContain('./vsl/backend')
    expect(exported('src/vsl/grouped.ts', 'export function grouped() {}')).not.toContain('./vsl/grouped')
  })
})
