import {
  type Document,
  isCollection,
  isNode,
  isPair,
  isScalar,
  LineCounter,
  type Node,
  parseDocument,
  visit,
} from 'yaml'
import { faultIn } from './yaml-fault.ts'

/** What a YAML text holds, and on which line what a path leads to stands, or the nearest thing around it. */
export interface YamlText {
  readonly value: unknown
  lineOf(path: readonly (string | number)[]): number | undefined
}

/** Why a text is no YAML, or none that we take, in our own words: where it stands, and what to do. */
export class YamlFault extends Error {
  readonly line: number
  readonly column: number
  /** The names around it, as far as they could be read: `steps.read`. */
  readonly path: string
  constructor(message: string, at: Pick<YamlFault, 'line' | 'column' | 'path'>, cause?: unknown) {
    super(message, { cause })
    this.line = at.line
    this.column = at.column
    this.path = at.path
  }
}

/** `stringKeys`: every name is the text that it is written as. Throws YamlFault. */
export function yamlIn(text: string, options: { readonly stringKeys?: boolean } = {}): YamlText {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, ...options })
  const fault = (offset: number, message: string, cause?: unknown) => {
    const { line, col: column } = lines.linePos(offset)
    return new YamlFault(message, { line, column, path: pathTo(document.contents, offset) }, cause)
  }
  const [error] = [...document.errors, ...document.warnings] // a tag that is not known would be passed by
  if (error) throw fault(error.pos[0], faultIn(error, text), error)
  let last = 0
  visit(document, {
    Alias(_, alias, around) {
      const { range, source } = alias
      last = range![0]
      const meant = alias.resolve(document)
      if (!meant) throw fault(last, `*${source} stands for nothing; put &${source} before what it is to repeat`)
      // Whoever walks through what it stands for would never come to an end.
      if (around.includes(meant)) throw fault(last, `*${source} stands in itself; write out what is meant`)
    },
  })
  return {
    value: told(document, (cause) => fault(last, TOO_MANY, cause)),
    lineOf(path) {
      for (let known = path.length; known >= 0; known--) {
        const node = known === 0 ? document.contents : document.getIn(path.slice(0, known), true)
        if (isNode(node) && node.range) return lines.linePos(node.range[0]).line
      }
      return undefined
    },
  }
}

const MOST_ALIASES = 100
const TOO_MANY = `aliases, as *name is one, repeat more than ${MOST_ALIASES} times what they stand for; write out what is meant`

function told(document: Document, tooMany: (cause: unknown) => YamlFault): unknown {
  try {
    return document.toJS({ maxAliasCount: MOST_ALIASES }) as unknown
  } catch (cause) {
    throw cause instanceof ReferenceError ? tooMany(cause) : cause
  }
}

/** The names around a place, outermost first. What cannot be read any more has the last name before it. */
function pathTo(node: unknown, offset: number, above = ''): string {
  if (!isCollection(node)) return above
  const before = node.items.map((item, i) => (isPair(item) ? item : { key: i, value: item })).filter(beginsBy(offset))
  const { key, value } = before.at(-1) ?? {}
  if (typeof key === 'number') return pathTo(value, offset, `${above}[${key}]`)
  return isScalar(key) ? pathTo(value, offset, above === '' ? `${key.value}` : `${above}.${key.value}`) : above
}

const beginsBy =
  (offset: number) =>
  ({ key, value }: { readonly key: unknown; readonly value: unknown }): boolean =>
    (startOf(key) ?? startOf(value) ?? Number.POSITIVE_INFINITY) <= offset

const startOf = (node: unknown): number | undefined => (isNode(node) ? (node as Node).range?.[0] : undefined)
