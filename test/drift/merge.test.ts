import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { mergeText, mergeValue } from '../../src/drift/merge.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { type Luck, luck } from './simulator.ts'

const clean = (text: string) => ({ clean: true, text })

describe('a merge', () => {
  it('takes the changed side when only one side changed', () => {
    expect(mergeText('a\n', 'a\n', 'b\n')).toEqual(clean('b\n'))
    expect(mergeText('a\n', 'b\n', 'a\n')).toEqual(clean('b\n'))
    expect(mergeText('a\n', 'b\n', 'b\n')).toEqual(clean('b\n'))
  })

  it('refuses what is no text, and says which', () => {
    const refused = (path: string) => expect.objectContaining({ problems: [expect.objectContaining({ path })] })
    expect(() => mergeText(undefined as never, 'a', 'b')).toThrow(refused('base'))
    expect(() => mergeText('a', 7 as never, 'b')).toThrow(refused('graph'))
    expect(() => mergeText('a', 'b', null as never)).toThrow(refused('file'))
  })

  it('puts changes of different places together', () => {
    expect(mergeText('1\n2\n3\n4\n5\n', 'one\n2\n3\n4\n5\n', '1\n2\n3\n4\nfive\n')).toEqual(
      clean('one\n2\n3\n4\nfive\n'),
    )
  })

  it('conflicts where both sides changed the same lines, or lines without an unchanged one between them', () => {
    expect(mergeText('a\nb\nc\n', 'a\nX\nc\n', 'a\nY\nc\n')).toEqual({
      clean: false,
      conflicts: 1,
      marked: 'a\n<<<<<<< graph\nX\n=======\nY\n>>>>>>> file\nc\n',
    })
    expect(mergeText('a\nb\n', 'A\nb\n', 'a\nB\n').clean).toBe(false)
  })

  it('asks rather than guesses which of several equal lines was meant', () => {
    const base = '}\n}\n'
    expect(mergeText(base, '}\nx\n}\n', 'y\n}\n}\n}\n').clean).toBe(false)
    const lines = (text: string) => [...text].map((line) => `${line}\n`).join('') // clean from either end, and not the same
    expect(mergeText(lines('cca'), lines('cbca'), lines('dccc')).clean).toBe(false)
  })

  it('counts a change of all line ends as one change, and keeps the other side’s lines', () => {
    expect(mergeText('1\n2\n3\n4\n', '1\n2\n3\nfour\n', '1\r\n2\r\n3\r\n4\r\n')).toEqual(
      clean('1\r\n2\r\n3\r\nfour\r\n'),
    )
    expect(mergeText('1\r\n2\r\n3\r\n', 'one\r\n2\r\n3\r\n', '1\n2\n3\n')).toEqual(clean('one\n2\n3\n'))
    expect(mergeText('1\r\n2\r\n3\r\n', 'one\r\n2\r\n3\r\n', '1\r\n2\r\nthree\r\n')).toEqual(
      clean('one\r\n2\r\nthree\r\n'),
    )
  })

  it('leaves mixed line ends as they are', () => {
    expect(mergeText('1\r\n2\n3\n4\n', '1\r\n2\n3\nfour\n', 'one\r\n2\n3\n4\n')).toEqual(clean('one\r\n2\n3\nfour\n'))
    const crlf = '1\r\n2\r\n3\r\n4\r\n'
    expect(mergeText(crlf, crlf.replace('4\r', 'four'), crlf.replace('1', 'one'))).toEqual(
      clean('one\r\n2\r\n3\r\nfour\n'),
    )
  })

  it('shows both sides of a conflict as they end their lines, and nothing for one that has none', () => {
    expect(mergeText('1\r\n2\r\n', '1\r\ntwo\r\n', '1\r\n')).toEqual({
      clean: false,
      conflicts: 1,
      marked: '1\r\n<<<<<<< graph\r\ntwo\r\n=======\r\n>>>>>>> file\r\n',
    })
  })

  it('keeps a missing last line end where nobody gave it one, and takes one from who did', () => {
    expect(mergeText('1\n2\n3', 'one\n2\n3', '1\n2\n3')).toEqual(clean('one\n2\n3'))
    expect(mergeText('1\n2\n3', 'one\n2\n3', '1\n2\n3\n')).toEqual(clean('one\n2\n3\n'))
    expect(mergeText('1\n2\n3\n', 'one\n2\n3\n', '1\n2\n3')).toEqual(clean('one\n2\n3'))
  })

  it('merges long files of much the same lines in good time', () => {
    const lines = Array.from({ length: 40_000 }, (_, i) => (i % 3 === 0 ? '},' : i % 3 === 1 ? '"x": {' : `"v": ${i}`))
    const [graph, file] = [[...lines], [...lines]]
    graph[4] = 'first'
    graph[39_990] = 'last'
    file[20_000] = 'middle'
    const merged = mergeText(lines.join('\n'), graph.join('\n'), file.join('\n'))
    expect(merged.clean && merged.text.split('\n').filter((line) => /^[flm]/.test(line))).toEqual([
      'first',
      'middle',
      'last',
    ])
  })

  it('gives up on what would take too long, and says that it conflicts', () => {
    const same = (n: number, first: string) => [first, ...Array.from({ length: n }, () => 'same')].join('\n')
    expect(mergeText(same(20_000, 'a'), same(20_001, 'b'), same(19_000, 'c')).clean).toBe(false)
  })

  it('takes the value that one side changed, and none when both did', () => {
    expect([mergeValue(1, 1, 2), mergeValue(1, 2, 1), mergeValue(1, 2, 2), mergeValue(1, 2, 3)]).toEqual([
      2,
      2,
      2,
      undefined,
    ])
  })
})

describe('beside git merge-file', () => {
  type Case = readonly [base: string, graph: string, file: string]

  /** What git makes of each case; `undefined` for a conflict. One shell for all: a thousand processes are quicker than a thousand forks of ours. */
  function byGit(cases: readonly Case[]): readonly (string | undefined)[] {
    const folder = tempFolder()
    for (const [i, texts] of cases.entries())
      for (const [j, text] of texts.entries()) writeFileSync(join(folder, `${i}.${j}`), text)
    const loop =
      'i=0; while [ $i -lt $0 ]; do git merge-file -p -q $i.1 $i.0 $i.2 > $i.m 2>&1; echo $? > $i.s; i=$((i+1)); done'
    execFileSync('sh', ['-c', loop, String(cases.length)], { cwd: folder })
    return cases.map((_, i) => {
      const clean = readFileSync(join(folder, `${i}.s`), 'utf8').trim() === '0'
      return clean ? readFileSync(join(folder, `${i}.m`), 'utf8') : undefined
    })
  }

  function randomCases(count: number, word: () => string, chance: Luck): readonly Case[] {
    const text = (lines: readonly string[]) =>
      lines.length === 0 ? '' : lines.join('\n') + (chance.random() < 0.9 ? '\n' : '')
    return Array.from({ length: count }, () => {
      const lines = Array.from({ length: chance.below(25) }, word)
      return [text(lines), text(edited(lines, word, chance)), text(edited(lines, word, chance))] as const
    })
  }

  function edited(lines: readonly string[], word: () => string, { below }: Luck): string[] {
    const result = [...lines]
    for (let left = below(4); left > 0; left--) {
      const at = below(result.length + 1)
      const kind = below(3)
      if (kind === 0) result.splice(at, 0, ...Array.from({ length: 1 + below(2) }, word))
      else if (kind === 1) result.splice(at, 1 + below(2))
      else if (at < result.length) result[at] = word()
    }
    return result
  }

  it('merges lines that differ from each other exactly as git does: the same verdict and the same bytes', () => {
    let next = 0
    const cases = randomCases(1_000, () => `line ${next++}`, luck(11))
    const ours = cases.map((sides) => mergeText(...sides)).map((merged) => (merged.clean ? merged.text : undefined))
    expect(ours).toEqual(byGit(cases))
    expect(ours.filter((text) => text !== undefined).length).toBeGreaterThan(300)
  }, 120_000)

  it('is never clean with other bytes than git where lines repeat, and asks in few cases more', () => {
    const tally = { agreed: 0, cautious: 0, bold: 0 }
    for (const words of [6, 12, 40]) {
      const chance = luck(words)
      const cases = randomCases(700, () => `line ${chance.below(words)}`, chance)
      const git = byGit(cases)
      for (const [i, sides] of cases.entries()) {
        const ours = mergeText(...sides)
        if (ours.clean && git[i] !== undefined) expect(ours.text).toBe(git[i])
        tally[ours.clean === (git[i] !== undefined) ? 'agreed' : ours.clean ? 'bold' : 'cautious']++
      }
    }
    expect(tally.agreed).toBeGreaterThan(1_950)
    expect(tally.bold).toBeLessThan(10)
  }, 120_000)
})
