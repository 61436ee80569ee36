import { InvalidInput } from './errors.ts'

/** What is found wrong in the course of some work, told of another subject and by paths that whoever reads it knows. */
export function retold<T>(subject: string, named: (path: string) => string, work: () => T): T {
  try {
    return work()
  } catch (cause) {
    if (!(cause instanceof InvalidInput)) throw cause
    const problems = cause.problems.map((problem) => ({ ...problem, path: named(problem.path) }))
    throw new InvalidInput(subject, problems, { cause })
  }
}
