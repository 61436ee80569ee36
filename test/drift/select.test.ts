import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openRoot } from '../../src/drift/root.ts'
import { scan } from '../../src/drift/scan.ts'
import { type Selection, selectFiles } from '../../src/drift/select.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { put } from './given.ts'
import { luck } from './simulator.ts'

const nothing = { get: () => undefined, paths: () => [] }

async function selected(root: string, selection: Selection = {}): Promise<readonly string[]> {
  return (await scan(await openRoot(root), selectFiles(selection), nothing)).paths
}

describe('what belongs to a context', () => {
  it('is everything below the root, except git’s and our own folders', async () => {
    const root = tempFolder()
    put(root, { a: '', '.hidden/b': '', 'c/d/e': '', '.git/config': '', '.mplp/state.db': '', 'c/.mplp-1-2.tmp': '' })
    expect(await selected(root)).toEqual(['.hidden/b', 'a', 'c/d/e'])
  })

  it('is not what was installed there, unless somebody says what is left out instead', async () => {
    const root = tempFolder()
    put(root, { a: '', 'node_modules/b/c': '', 'd/node_modules/e': '', my_node_modules: '', 'node_modules.md': '' })
    const own = ['a', 'my_node_modules', 'node_modules.md']
    expect(await selected(root)).toEqual(own)
    expect(await selected(root, { include: ['**'] })).toEqual(own)
    expect(await selected(root, { exclude: [] })).toHaveLength(5)
    expect(await selected(root, { exclude: ['d'] })).toEqual([
      'a',
      'my_node_modules',
      'node_modules.md',
      'node_modules/b/c',
    ])
  })

  it('is what patterns include and do not exclude', async () => {
    const root = tempFolder()
    put(root, { 'src/a.ts': '', 'src/a.js': '', 'src/gen/b.ts': '', 'docs/c.ts': '', 'd.ts': '' })
    expect(await selected(root, { include: ['src/**/*.ts', 'd.ts'], exclude: ['src/gen'] })).toEqual([
      'd.ts',
      'src/a.ts',
    ])
  })

  it('is also what has a line end in its name', async () => {
    const root = tempFolder()
    put(root, { 'a\nb': '', 'c\nd/e': '', 'f\ng/h': '' })
    expect(await selected(root, { exclude: ['f*/**'] })).toEqual(['a\nb', 'c\nd/e'])
  })

  it('leaves out what .gitignore and .mplpignore say, nested ones too, the nearest deciding', async () => {
    const root = tempFolder()
    put(root, {
      '.gitignore': 'dist/\n*.log\n',
      '.mplpignore': 'notes.txt\n!keep.log\n',
      'dist/a': '',
      'x.log': '',
      'keep.log': '',
      'notes.txt': '',
      'src/.gitignore': '!x.log\n/only-here\n',
      'src/x.log': '',
      'src/only-here': '',
      'src/deep/only-here': '',
    })
    expect(await selected(root)).toEqual([
      '.gitignore',
      '.mplpignore',
      'keep.log',
      'src/.gitignore',
      'src/deep/only-here',
      'src/x.log',
    ])
  })

  it('is judged anew when the rules of a folder are read again', async () => {
    const root = tempFolder()
    put(root, { 'sub/.gitignore': 'inner/', 'sub/inner/a': '' })
    const select = selectFiles()
    await scan(await openRoot(root), select, nothing)
    expect(select.hasFile('sub/inner/a')).toBe(false)
    rmSync(join(root, 'sub/.gitignore'))
    expect((await scan(await openRoot(root), select, nothing, { folders: ['sub'] })).paths).toEqual(['sub/inner/a'])
  })

  it('follows no link to find rules', async () => {
    const [root, outside] = [tempFolder(), tempFolder()]
    put(outside, { rules: 'a\n' })
    put(root, { a: '' })
    execFileSync('ln', ['-s', join(outside, 'rules'), join(root, '.gitignore')])
    expect(await selected(root)).toEqual(['.gitignore', 'a'])
  })

  it('is what git itself would not ignore, in random trees with random rules', async () => {
    const { below, pick } = luck(3)
    const names = ['a', 'b', 'c.txt', 'd.log', 'build', 'Src']
    const rule = () =>
      pick([
        'a',
        '/a',
        'a/',
        '*.log',
        '!d.log',
        'build/',
        'b/*',
        '!b/a',
        '**/c.txt',
        'Src',
        'src',
        '#x',
        'b/**/a',
        '!*.txt',
      ])
    for (let tree = 0; tree < 12; tree++) {
      const root = tempFolder()
      execFileSync('git', ['-C', root, 'init', '-q'])
      const folders = [
        '',
        ...Array.from({ length: 6 }, () => Array.from({ length: 1 + below(3) }, () => pick(names)).join('/')),
      ]
      const files = folders.flatMap((folder) => names.map((name) => join(folder, name))).filter(() => below(2) === 0)
      for (const path of files) tryWrite(root, path, 'x')
      for (const folder of folders.filter((_, i) => i === 0 || below(3) === 0))
        tryWrite(root, join(folder, '.gitignore'), Array.from({ length: 1 + below(4) }, rule).join('\n'))
      const all = execFileSync('find', ['.', '-path', './.git', '-prune', '-o', '-type', 'f', '-print'], { cwd: root })
      const paths = all
        .toString()
        .split('\n')
        .filter(Boolean)
        .map((path) => path.slice(2))
      const ignored = spawnSync(
        'git',
        ['-C', root, '-c', 'core.ignorecase=false', 'check-ignore', '--no-index', '--stdin'],
        { input: paths.join('\n') },
      )
      const out = new Set(ignored.stdout.toString().split('\n'))
      expect(await selected(root)).toEqual(paths.filter((path) => !out.has(path)).sort())
    }
  }, 60_000)

  it('refuses patterns that are none, and those that lead out of the root', () => {
    const problems = (selection: unknown) => {
      try {
        selectFiles(selection as Selection)
      } catch (error) {
        if (error instanceof InvalidInput) return error.problems.map(({ path, rule }) => [path, rule])
      }
      return []
    }
    expect(problems({ include: ['../x', '/etc', ''] })).toEqual([
      ['include[0]', 'pattern'],
      ['include[1]', 'pattern'],
      ['include[2]', 'pattern'],
    ])
    expect(problems({ exclude: 'src' })).toEqual([['exclude', 'type']])
    expect(problems({ ignoreFiles: [7] })).toEqual([['ignoreFiles[0]', 'pattern']])
  })
})

/** A random tree may want a folder where it has a file: then it goes without. */
function tryWrite(root: string, path: string, text: string): void {
  try {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  } catch (error) {
    if (!['EEXIST', 'ENOTDIR', 'EISDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}
