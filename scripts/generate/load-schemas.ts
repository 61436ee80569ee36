import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'

/** A subschema as it stands in a file. */
export type SchemaNode = { readonly [keyword: string]: unknown }

/** Every schema under `folder` by its kind, which is the file's name, in the order of their paths; `$ref`s name kinds. */
export function loadSchemas(folder: string): Map<string, SchemaNode> {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith(SUFFIX))
  const schemas = new Map<string, SchemaNode>()
  for (const path of paths.sort()) {
    const kind = kindOf(path)
    if (schemas.has(kind)) throw new Error(`two schemas are called ${kind}`)
    const { $schema, ...schema } = JSON.parse(readFileSync(join(folder, path), 'utf8'))
    if ($schema !== DRAFT_07) throw new Error(`${path} is not a draft-07 schema`)
    schemas.set(kind, withKinds(schema, path, paths) as SchemaNode)
  }
  return schemas
}

const SUFFIX = '.schema.json'
const DRAFT_07 = 'http://json-schema.org/draft-07/schema#'
const kindOf = (path: string): string => basename(path, SUFFIX)

/** Every keyword that src/protocol/explain.ts can explain, and those that say nothing about a value. */
const KEYWORDS = new Set([
  ...['title', 'description', '$ref', 'allOf', 'type', 'const', 'enum'],
  ...['minLength', 'pattern', 'format', 'minimum', 'maximum'],
  ...['minItems', 'uniqueItems', 'items', 'required', 'properties', 'additionalProperties'],
])

function withKinds(node: unknown, path: string, paths: readonly string[]): unknown {
  if (Array.isArray(node)) return node.map((item) => withKinds(item, path, paths))
  if (typeof node !== 'object' || node === null) return node
  return Object.fromEntries(
    Object.entries(node).map(([keyword, value]) => {
      if (!KEYWORDS.has(keyword)) throw new Error(`${path} uses ${keyword}, which explain.ts does not know`)
      if (keyword === '$ref') return [keyword, referred(value, path, paths)]
      if (keyword === 'properties') return [keyword, eachProperty(value, (sub) => withKinds(sub, path, paths))]
      return [keyword, withKinds(value, path, paths)]
    }),
  )
}

function eachProperty(properties: unknown, change: (schema: unknown) => unknown): unknown {
  return Object.fromEntries(Object.entries(properties as SchemaNode).map(([name, schema]) => [name, change(schema)]))
}

function referred(ref: unknown, path: string, paths: readonly string[]): string {
  const target = join(dirname(path), String(ref))
  if (!paths.includes(target)) throw new Error(`${path} refers to ${target}, which is not there`)
  return kindOf(target)
}
