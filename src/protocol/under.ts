import type { Problem } from './errors.ts'

/** The problems under another root: `tool_args` and `city` make `tool_args.city`, `args` and `[0]` make `args[0]`. */
export const under = (root: string, problems: readonly Problem[]): Problem[] =>
  problems.map((problem) => {
    const dot = problem.path === '' || problem.path.startsWith('[') ? '' : '.'
    return { ...problem, path: `${root}${dot}${problem.path}` }
  })
