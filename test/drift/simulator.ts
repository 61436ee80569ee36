import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { fileId } from '../../src/drift/compare.ts'
import { digestOf } from '../../src/protocol/json.ts'
import type { FileRecord, FindingRecord } from '../../src/psg/change.ts'
import type { ProjectGraph } from '../../src/psg/graph.ts'

/** The same luck for the same seed. */
export function luck(seed: number) {
  let state = seed >>> 0
  const random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 4294967296
  }
  const below = (n: number) => Math.floor(random() * n)
  return { random, below, pick: <T>(items: readonly T[]): T => items[below(items.length)]! }
}
export type Luck = ReturnType<typeof luck>

const GIT = { GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@b.c', GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@b.c' }
const git = (root: string, ...args: string[]) =>
  execFileSync('git', ['-C', root, '-c', 'init.defaultBranch=main', '-c', 'gc.auto=0', ...args], {
    env: { ...process.env, ...GIT },
    stdio: 'pipe',
  })

/** A folder with files, some of them under git on two branches, and a corner that does not belong. */
export function startFolder(root: string, { below, pick }: Luck): void {
  fs.writeFileSync(join(root, '.gitignore'), 'ignored/\n*.log\n')
  const folders = ['', 'src', 'src/deep', 'docs', 'ignored']
  for (const folder of folders) fs.mkdirSync(join(root, folder), { recursive: true })
  for (let i = 0; i < 40; i++) fs.writeFileSync(join(root, pick(folders), `f${i}.txt`), content({ below } as Luck))
  git(root, 'init', '-q')
  git(root, 'add', '-A')
  git(root, 'commit', '-qm', 'one')
  git(root, 'checkout', '-qb', 'other')
  for (const path of plain(root).filter(() => below(3) === 0))
    fs.writeFileSync(join(root, path), content({ below } as Luck))
  fs.writeFileSync(join(root, 'only-there.txt'), 'other\n')
  git(root, 'add', '-A')
  git(root, 'commit', '-qm', 'two')
  git(root, 'checkout', '-q', 'main')
}

const content = ({ below }: Pick<Luck, 'below'>): string =>
  Array.from({ length: below(12) }, (_, i) => `line ${i} ${below(40)}\n`).join('')

/** Every path that could belong, found by a walk of our own. */
function files(root: string, folder = ''): string[] {
  return fs.readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`
    if (entry.name === '.git' || path === 'ignored' || /\.log$/.test(path)) return []
    return entry.isDirectory() ? files(root, path) : [path]
  })
}

let count = 0
const newName = ({ pick }: Luck) =>
  `${pick(['', 'src/', 'src/deep/', 'docs/', 'new/', 'new/er/', 'ignored/'])}n${count++}.${pick(['txt', 'log', 'md'])}`

const EDITS: { readonly [name: string]: (root: string, luck: Luck) => void } = {
  create: (root, luck) => write(root, newName(luck), content(luck)),
  change: (root, luck) => at(root, luck, (full) => fs.writeFileSync(full, content(luck))),
  append: (root, luck) => at(root, luck, (full) => fs.appendFileSync(full, `more ${luck.below(99)}\n`)),
  sameSize(root, luck) {
    at(root, luck, (full) => {
      const text = fs.readFileSync(full, 'utf8')
      fs.writeFileSync(
        full,
        text.replaceAll(/\d/g, (digit) => String(9 - Number(digit))),
      )
    })
  },
  remove: (root, luck) => at(root, luck, (full) => fs.unlinkSync(full)),
  rename(root, luck) {
    at(root, luck, (full) => {
      const to = join(root, newName(luck))
      fs.mkdirSync(dirname(to), { recursive: true })
      fs.renameSync(full, to)
    })
  },
  swap(root, luck) {
    const all = plain(root)
    if (all.length < 2) return
    const [a, b] = [luck.pick(all), luck.pick(all)].map((path) => join(root, path)) as [string, string]
    fs.renameSync(a, `${a}.swap`)
    if (a !== b) fs.renameSync(b, a)
    fs.renameSync(`${a}.swap`, b)
  },
  touch: (root, luck) => at(root, luck, (full) => fs.utimesSync(full, luck.below(1e9), luck.below(1e9))),
  chmod: (root, luck) => at(root, luck, (full) => fs.chmodSync(full, luck.pick([0o644, 0o755, 0o600]))),
  atomicSave(root, luck) {
    at(root, luck, (full) => {
      const temporary = join(dirname(full), `.${luck.below(1e6)}.swp`)
      fs.writeFileSync(temporary, content(luck))
      fs.renameSync(temporary, full)
    })
  },
  backupSave(root, luck) {
    at(root, luck, (full) => {
      fs.renameSync(full, `${full}~`)
      fs.writeFileSync(full, content(luck))
      fs.unlinkSync(`${full}~`)
    })
  },
  link(root, luck) {
    at(root, luck, (full) => {
      fs.unlinkSync(full)
      fs.symlinkSync(luck.pick(['f1.txt', 'nowhere', 'docs']), full)
    })
  },
  becomeFolder(root, luck) {
    at(root, luck, (full) => {
      fs.unlinkSync(full)
      fs.mkdirSync(full)
      fs.writeFileSync(join(full, 'inside.txt'), content(luck))
    })
  },
  renameFolder(root, luck) {
    const name = luck.pick(['src/deep', 'docs', 'new', 'new/er'])
    const to = join(root, `moved${count++}`)
    if (fs.existsSync(join(root, name))) fs.renameSync(join(root, name), to)
  },
  removeFolder(root, luck) {
    if (luck.below(3) === 0)
      fs.rmSync(join(root, luck.pick(['new', 'src/deep', 'new/er'])), { recursive: true, force: true })
  },
  growTree: (root, luck) => tree(join(root, `tree${count++}`), luck),
  moveTreeIn(root, luck) {
    const outside = join(root, 'ignored', `tree${count++}`)
    tree(outside, luck)
    fs.renameSync(outside, join(root, `tree${count++}`))
  },
  moveTreeOut: (root, luck) =>
    inTrees(root, luck, (full) => fs.renameSync(full, join(root, 'ignored', `tree${count++}`))),
  replaceTree(root, luck) {
    inTrees(root, luck, (full) => {
      fs.renameSync(full, join(root, 'ignored', `tree${count++}`))
      tree(full, luck)
    })
  },
  writeIntoTree: (root, luck) =>
    inTrees(root, luck, (full) => write(full, `${luck.pick(['', 'a/', 'a/b/'])}late${count++}.txt`, content(luck))),
  checkout(root, luck) {
    if (luck.below(4) === 0) git(root, 'checkout', '-qf', luck.pick(['main', 'other']))
  },
}

/** Folders in folders, with files in each. */
function tree(full: string, luck: Luck, depth = 2): void {
  fs.mkdirSync(full)
  for (let i = 0; i < 2; i++) fs.writeFileSync(join(full, `t${count++}.txt`), content(luck))
  if (depth > 0) for (const name of ['a', 'b']) tree(join(full, name), luck, depth - 1)
}
function inTrees(root: string, luck: Luck, edit: (full: string) => void): void {
  const trees = fs.readdirSync(root).filter((name) => name.startsWith('tree'))
  if (trees.length > 0) edit(join(root, luck.pick(trees)))
}

function write(root: string, path: string, text: string): void {
  const folder = dirname(join(root, path))
  if (fs.existsSync(folder) && !fs.lstatSync(folder).isDirectory()) return
  if (fs.existsSync(join(root, path)) && fs.lstatSync(join(root, path)).isDirectory()) return
  fs.mkdirSync(folder, { recursive: true })
  fs.writeFileSync(join(root, path), text)
}
const plain = (root: string): string[] =>
  files(root).filter((path) => fs.lstatSync(join(root, path)).isFile() && !path.endsWith('.gitignore'))
function at(root: string, luck: Luck, edit: (full: string) => void): void {
  const all = plain(root)
  if (all.length > 0) edit(join(root, luck.pick(all)))
}

/** One edit of the disk, as a person, an editor or git would make it. */
export const editDisk = (root: string, luck: Luck): void => EDITS[luck.pick(Object.keys(EDITS))]!(root, luck)

/** One change of what the graph believes, without touching the disk. */
export async function editGraph(graph: ProjectGraph, luck: Luck): Promise<void> {
  const believed = [...beliefs(graph).values()].filter(({ type, path }) => type === 'file' && path !== '.gitignore')
  const by = { actor: 'somebody', reason: 'changes the graph' }
  const text = content(luck)
  const bytes = Buffer.from(text)
  const digest = await graph.store.putBlob(bytes)
  const known = luck.pick(believed)
  const path = luck.below(3) === 0 || !known ? `graph${count++}.txt` : known.path
  const id = fileId(path)
  const data = { digest, size: bytes.length, kept: true, mtime: '2026-01-01T00:00:00.000000Z' }
  if (!graph.get('file', id))
    await graph.commit([{ kind: 'node_add', node: 'file', id, data: { ...data, path, type: 'file', mode: 0o644 } }], by)
  else if (luck.below(4) === 0) await graph.commit([{ kind: 'node_delete', node: 'file', id }], by)
  else await graph.commit([{ kind: 'node_update', node: 'file', id, set: data }], by)
}

function beliefs(graph: ProjectGraph): Map<string, FileRecord> {
  const found = new Map<string, FileRecord>()
  for (const node of graph.state.nodesOf('files')) if (node.kind === 'file') found.set(node.data.path, node.data)
  return found
}

type Shape = { type: string; digest?: string; mode: number; size: number }

/** What is on the disk, read whole. */
function truth(root: string): Map<string, Shape> {
  return new Map(files(root).map((path) => [path, shapeAt(join(root, path))]))
}
function shapeAt(full: string): Shape {
  const stats = fs.lstatSync(full)
  if (stats.isSymbolicLink())
    return { type: 'link', digest: digestOf(fs.readlinkSync(full)), mode: 0o777, size: stats.size }
  if (!stats.isFile()) return { type: 'folder', mode: 0, size: 0 }
  return { type: 'file', digest: digestOf(fs.readFileSync(full)), mode: stats.mode & 0o777, size: stats.size }
}

/** Every difference, a renaming told as its two ends, one line each; and how many renamings there must be. */
export function differences(graph: ProjectGraph, root: string): { lines: string[]; renames: number } {
  const [believed, there] = [beliefs(graph), truth(root)]
  const lines: string[] = []
  const [gone, come] = [new Map<string, number>(), new Map<string, number>()]
  const more = (counts: Map<string, number>, digest: string) => counts.set(digest, (counts.get(digest) ?? 0) + 1)
  for (const [path, record] of believed) {
    const full = join(root, path)
    const isFolder = fs.existsSync(full) && fs.lstatSync(full).isDirectory()
    const shape = isFolder ? { type: 'folder', mode: 0, size: 0 } : there.get(path)
    if (!shape) {
      lines.push(`deleted ${path}`)
      if (record.agreed?.type === 'file' && record.agreed.size > 0) more(gone, record.agreed.digest)
    } else if (shape.type !== record.type) lines.push(`type_changed ${path}`)
    else if (shape.digest !== record.digest) lines.push(`modified ${path}`)
    else if (shape.mode !== record.mode) lines.push(`mode_changed ${path}`)
  }
  for (const [path, shape] of there) {
    if (believed.has(path)) continue
    lines.push(`added ${path}`)
    if (shape.type === 'file' && shape.size > 0) more(come, shape.digest!)
  }
  const renames = [...gone].reduce((sum, [digest, n]) => sum + Math.min(n, come.get(digest) ?? 0), 0)
  return { lines: lines.sort(), renames }
}

export function told(findings: readonly FindingRecord[]): { lines: string[]; renames: number } {
  const lines = findings.flatMap(({ what, path, from }) =>
    what === 'renamed' ? [`deleted ${from}`, `added ${path}`] : [`${what} ${path}`],
  )
  return { lines: lines.sort(), renames: findings.filter(({ what }) => what === 'renamed').length }
}
