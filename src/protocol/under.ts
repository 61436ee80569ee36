import type { Problem } from './errors.ts'

/** A path under another root: `tool_args` and `city` make `tool_args.city`, `args` and `[0]` make `args[0]`. */
export const pathUnder = (root: string, path: string): string =>
  path === '' || path.startsWith('[') ? `${root}${path}` : `${root}.${path}`

/** The problems under another root. */
export const under = (root: string, problems: readonly Problem[]): Problem[] =>
  problems.map((problem) => ({ ...problem, path: pathUnder(root, problem.path) }))
