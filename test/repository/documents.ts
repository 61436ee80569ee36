import { readdirSync, readFileSync } from 'node:fs'
import { join, posix, relative } from 'node:path'
import { ROOT } from './imports.ts'

/** A fenced block: its language, the words behind it, its text, and the line on which the text begins. */
export interface Block {
  readonly language: string
  readonly words: readonly string[]
  readonly text: string
  readonly line: number
}
export interface Link {
  readonly target: string
  readonly line: number
}
/** A document as its reader meets it. */
export interface Page {
  /** From the root of the repository. */
  readonly path: string
  readonly blocks: readonly Block[]
  readonly links: readonly Link[]
  /** What `#…` may name. */
  readonly anchors: ReadonlySet<string>
  /** What stands in backticks outside of blocks. */
  readonly quoted: readonly Link[]
  readonly text: string
}

const AT_THE_ROOT = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'examples/README.md', 'llms.txt']

/** The documents that a newcomer reads. */
export function pages(): readonly Page[] {
  const docs = readdirSync(join(ROOT, 'docs'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.md'))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)).replaceAll('\\', '/'))
    .sort()
  return [...AT_THE_ROOT, ...docs].map((path) => pageOf(path, readFileSync(join(ROOT, path), 'utf8')))
}

function pageOf(path: string, text: string): Page {
  const blocks: Block[] = []
  const links: Link[] = []
  const quoted: Link[] = []
  const anchors = new Set<string>()
  let open: { fence: string; info: string; line: number; lines: string[] } | undefined
  for (const [i, line] of text.split('\n').entries()) {
    const fence = /^\s*(`{3,})(.*)$/.exec(line)
    if (open) {
      if (fence?.[1] === open.fence && fence[2] === '') {
        const [language = '', ...words] = open.info.trim().split(/\s+/)
        blocks.push({ language, words, text: `${open.lines.join('\n')}\n`, line: open.line })
        open = undefined
      } else open.lines.push(line)
    } else if (fence) open = { fence: fence[1]!, info: fence[2]!, line: i + 2, lines: [] }
    else {
      const heading = /^#{1,6} (.*)$/.exec(line)?.[1]
      if (heading !== undefined) anchors.add(numbered(slugOf(heading), anchors))
      for (const [, code] of line.matchAll(/`([^`]+)`/g)) quoted.push({ target: code!, line: i + 1 })
      for (const [, target] of line.replaceAll(/`[^`]*`/g, '``').matchAll(/\]\(([^)\s]+)\)/g))
        links.push({ target: target!, line: i + 1 })
    }
  }
  if (open) throw new Error(`${path}:${open.line} begins a block that does not end`)
  return { path, blocks, links, anchors, quoted, text }
}

/** Where a link of a page leads: a path from the root of the repository, and the heading it names. */
export function destination(page: string, target: string): { path: string; anchor: string | undefined } {
  const [file = '', anchor] = target.split('#')
  return { path: file === '' ? page : posix.join(posix.dirname(page), decodeURIComponent(file)), anchor }
}

/** As GitHub makes it of a heading. */
const slugOf = (heading: string): string =>
  heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-')

function numbered(slug: string, taken: ReadonlySet<string>): string {
  let name = slug
  for (let n = 1; taken.has(name); n++) name = `${slug}-${n}`
  return name
}
