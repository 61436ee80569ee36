import type { Question } from '../orchestrator/questions.ts'
import { asks } from './asks.ts'
import { EXIT, type Io } from './io.ts'
import { limitIn } from './limit-in.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

export async function run({ io, options: { after, limit } }: VerbCall): Promise<number> {
  const page = {
    ...(typeof after === 'string' && { after }),
    ...(typeof limit === 'string' && { limit: limitIn(limit) }),
  }
  return withRuntime(io, async (runtime) => {
    const questions = await runtime.waiting(page)
    io.result(questions, () =>
      questions.length === 0
        ? `nothing ${after === undefined ? '' : 'more '}waits for a person`
        : questions.flatMap((question) => asked(question, io)).join('\n'),
    )
    return EXIT.done
  })
}

const asked = (question: Question, io: Io): readonly string[] => {
  const { confirm, title, shows, expires_at } = question
  const { diff, ...rest } = shows ?? {}
  return [
    `${io.paint('bold', confirm.confirm_id)} ${asks(confirm, title)}`,
    ...deciders(question),
    ...(shows ? [`  ${JSON.stringify(rest)}`] : []),
    ...(typeof diff === 'string' ? diff.trimEnd().split('\n').map(indented) : []), // in one line nobody could read it
    ...(expires_at === undefined ? [] : [`  until ${expires_at}`]),
  ]
}

function deciders({ roles, needed, approved_by = [] }: Question): readonly string[] {
  const may = roles ? [`may be decided by ${roles.join(', ')}`] : []
  const must = needed > 1 ? [`${needed} ${roles ? 'of them' : 'roles'} must approve`] : []
  const have = approved_by.length > 0 ? [`approved by ${approved_by.join(', ')}`] : []
  const said = [...may, ...must, ...have]
  return said.length > 0 ? [`  ${said.join('; ')}`] : []
}

const indented = (line: string): string => `  ${line}`
