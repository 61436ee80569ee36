import { join } from 'node:path'
import type { Node } from 'typescript/unstable/ast'
import { isHeritageClause, isImportTypeNode, isTypeQueryNode, isTypeReferenceNode } from 'typescript/unstable/ast/is'
import { API, type Symbol as Named, SymbolFlags } from 'typescript/unstable/sync'

const TYPE = SymbolFlags.Interface | SymbolFlags.TypeAlias | SymbolFlags.Class

/**
 * The types that exports speak of and that none of them is. What a type inherits and what its file keeps to itself are parts of it; of what they
 * speak is asked again. `files` are those that the exports lead to, below `dist`; the project's tsconfig.json has to reach them.
 */
export function unnameable(project: string, dist: string, files: readonly string[]): readonly string[] {
  const api = new API({ cwd: project })
  try {
    const [opened] = api.updateSnapshot({ openProjects: [join(project, 'tsconfig.json')] }).getProjects()
    const { program, checker } = opened!
    const meant = (named: Named): Named => (named.flags & SymbolFlags.Alias ? checker.getAliasedSymbol(named) : named)
    const modules = files.map((file) => checker.getSymbolAtLocation(program.getSourceFile(join(dist, file))!)!)
    const symbols = new Map(
      modules.flatMap((module) => checker.getExportsOfModule(module).map(meant)).map((s) => [s.id, s]),
    )
    const exported = new Set(symbols.keys())
    const missing = new Set<string>()
    for (const symbol of symbols.values()) {
      const declared = symbol.declarations
        .filter(({ path }) => path.startsWith(dist))
        .map((handle) => handle.resolve()!)
      const spoken = declared.flatMap((node) => namesIn(node))
      for (const [i, found] of checker.getSymbolAtLocation(spoken.map(({ name }) => name)).entries()) {
        const type = found && meant(found)
        const at = type?.declarations[0]?.path ?? ''
        if (!type || !(type.flags & TYPE) || !at.startsWith(dist)) continue
        symbols.set(type.id, type) // and so its turn comes too
        const isPart = spoken[i]!.inherited || type.getParent() === undefined
        if (!isPart && !exported.has(type.id)) missing.add(`${type.name} of ${at.slice(dist.length + 1)}`)
      }
    }
    return [...missing].sort()
  } finally {
    api.close()
  }
}

interface Spoken {
  readonly name: Node
  readonly inherited: boolean
}

function namesIn(node: Node): readonly Spoken[] {
  const names: Spoken[] = []
  const say = (name: Node | undefined, inherited = false) => name && names.push({ name, inherited })
  if (isTypeReferenceNode(node)) say(node.typeName)
  else if (isTypeQueryNode(node)) say(node.exprName)
  else if (isImportTypeNode(node)) say(node.qualifier)
  else if (isHeritageClause(node)) for (const { expression } of node.types) say(expression, true)
  node.forEachChild((child) => void names.push(...namesIn(child)))
  return names
}
