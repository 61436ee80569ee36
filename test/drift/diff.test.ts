import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { unifiedDiff } from '../../src/drift/diff.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { luck } from './simulator.ts'

const at = (text: string) => ({ path: 'f.txt', text })

describe('a diff', () => {
  it('shows a change with three lines around it', () => {
    const before = Array.from({ length: 20 }, (_, i) => `${i}\n`).join('')
    const { text, added, removed } = unifiedDiff(at(before), at(before.replace('10\n', 'ten\n')))
    expect(text).toBe('--- a/f.txt\n+++ b/f.txt\n@@ -8,7 +8,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n')
    expect([added, removed]).toEqual([1, 1])
  })

  it('shows changes that are near each other together, and others apart', () => {
    const lines = Array.from({ length: 40 }, (_, i) => `${i}\n`)
    const hunks = (...changed: number[]) =>
      unifiedDiff(
        at(lines.join('')),
        at(lines.map((line, i) => (changed.includes(i) ? 'x\n' : line)).join('')),
      ).text.match(/@@ -/g)?.length
    expect([hunks(5, 11), hunks(5, 13)]).toEqual([1, 2])
  })

  it('names nothing as the other side of what was added or deleted', () => {
    expect(unifiedDiff(undefined, at('a\nb\n')).text).toBe('--- /dev/null\n+++ b/f.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n')
    expect(unifiedDiff(at('a\n'), undefined).text).toBe('--- a/f.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n')
  })

  it('says where the last line has no end', () => {
    expect(unifiedDiff(at('a\n'), at('a')).text).toBe(
      '--- a/f.txt\n+++ b/f.txt\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n',
    )
  })

  it('is empty for equal texts', () => {
    expect(unifiedDiff(at('a\n'), at('a\n'))).toEqual({ text: '', added: 0, removed: 0 })
  })

  it('shows a great many lines', () => {
    const many = 300_000
    const { text, added } = unifiedDiff(undefined, at('\n'.repeat(many)))
    expect([added, text.length]).toEqual([many, '--- /dev/null\n+++ b/f.txt\n@@ -0,0 +1,300000 @@\n'.length + 2 * many])
  })

  it('leads git from the old text to the new one, in random cases', () => {
    const { below, random } = luck(5)
    const folder = tempFolder()
    const word = () => `line ${below(20)}`
    for (let i = 0; i < 150; i++) {
      const lines = Array.from({ length: 1 + below(30) }, word)
      const next = lines.flatMap((line) => (random() < 0.15 ? [] : random() < 0.15 ? [word(), line] : [line]))
      const end = () => (random() < 0.8 ? '\n' : '')
      const [before, after] = [lines.join('\n') + end(), next.length === 0 ? 'x' : next.join('\n') + end()]
      if (before === after) continue
      writeFileSync(join(folder, 'f.txt'), before)
      const { text } = unifiedDiff(at(before), at(after))
      const applied = spawnSync('git', ['apply', '--unsafe-paths', '-p1', '-'], { cwd: folder, input: text })
      expect([applied.stderr.toString(), readFileSync(join(folder, 'f.txt'), 'utf8')]).toEqual(['', after])
    }
  }, 60_000)
})
