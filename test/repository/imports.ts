import { readdirSync, readFileSync } from 'node:fs'
import { join, posix, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseAst } from 'vitest/node'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** One import or re-export. Types are gone when the code runs; a lazy one is loaded when its function is called. */
export interface Import {
  readonly from: string
  readonly when: 'type' | 'start' | 'lazy'
  readonly line: number
}
/** Something of the world outside that was read where it stands: `process.env`, `Date.now`, … */
export interface Reading {
  readonly what: string
  readonly line: number
}
export interface SourceFile {
  /** From the root of the repository, with `/`. */
  readonly path: string
  readonly imports: readonly Import[]
  readonly readings: readonly Reading[]
  /** Names of exported functions, constants and types. */
  readonly exports: readonly string[]
}

/** Every TypeScript file below a folder of the repository. */
export function sourceFiles(folder: string): SourceFile[] {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((path) => parse(relative(ROOT, path).replaceAll('\\', '/'), readFileSync(path, 'utf8')))
}

export function parse(path: string, text: string): SourceFile {
  const imports: Import[] = []
  const readings: Reading[] = []
  const exports: string[] = []
  const lineAt = (offset: number) => text.slice(0, offset).split('\n').length

  walk(parseAst(text, { lang: 'ts' }) as unknown as Node, (node) => {
    const what = readingOf(node)
    if (what) readings.push({ what, line: lineAt(node.start) })
    if (node.type.startsWith('Export')) exports.push(...exportedNames(node))
    const from = node.source?.value
    if (typeof from !== 'string') return
    const line = lineAt(node.start)
    if (node.type === 'ImportExpression') imports.push({ from, when: 'lazy', line })
    else if (node.type === 'TSImportType') imports.push({ from, when: 'type', line })
    else imports.push({ from, when: isTypeOnly(node) ? 'type' : 'start', line })
  })
  return { path, imports, readings, exports }
}

/** The file that a relative import of `path` names, from the root of the repository. */
export const resolved = (path: string, from: string): string => posix.join(posix.dirname(path), from)

interface Node {
  readonly type: string
  readonly start: number
  readonly [field: string]: unknown
  readonly source?: { readonly value?: unknown }
}

function walk(node: Node, visit: (node: Node) => void): void {
  visit(node)
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) walk(child, visit)
  }
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as Node).type === 'string'

function isTypeOnly(node: Node): boolean {
  if (node.importKind === 'type' || node.exportKind === 'type') return true
  const specifiers = (node.specifiers ?? []) as Node[]
  return specifiers.length > 0 && specifiers.every((s) => s.importKind === 'type' || s.exportKind === 'type')
}

function exportedNames(node: Node): string[] {
  const declaration = node.declaration as Node | null | undefined
  const declared = declaration?.declarations ?? (declaration ? [declaration] : [])
  const named = [
    ...(declared as Node[]).map((d) => d.id),
    ...((node.specifiers ?? []) as Node[]).map((s) => s.exported),
  ]
  return named.map((id) => (id as { name?: string } | null)?.name).filter((name) => name !== undefined)
}

/** Property reads on the objects that carry time, luck and environment, and the makers of ids, under whatever import. */
function readingOf(node: Node): string | undefined {
  if (node.type === 'MemberExpression') {
    const name = `${(node.object as { name?: string }).name}.${(node.property as { name?: string }).name}`
    return ['process.env', 'Date.now', 'Math.random', 'crypto.randomUUID'].includes(name) ? name : undefined
  }
  if (node.type === 'ImportSpecifier') {
    const name = (node.imported as { name?: string }).name
    return name === 'randomUUID' || name === 'env' ? name : undefined
  }
  const isDate = (node.callee as { name?: string } | undefined)?.name === 'Date'
  return isDate && (node.arguments as unknown[]).length === 0 ? 'new Date()' : undefined
}
