import type { Question } from '../orchestrator/wishes.ts'
import { EXIT, type Io } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

export async function run({ io }: VerbCall): Promise<number> {
  return withRuntime(io, async (runtime) => {
    const questions = await runtime.waiting()
    io.result(questions, () =>
      questions.length === 0
        ? 'nothing waits for a person'
        : questions.flatMap((question) => asked(question, io)).join('\n'),
    )
    return EXIT.done
  })
}

const asked = ({ confirm, roles, needed, shows, expires_at }: Question, io: Io): readonly string[] => {
  const { diff, ...rest } = shows ?? {}
  return [
    `${io.paint('bold', confirm.confirm_id)} ${confirm.reason ?? confirm.target_type}`,
    ...(roles
      ? [`  may be decided by ${roles.join(', ')}${needed > 1 ? `; ${needed} of them must approve` : ''}`]
      : []),
    ...(shows ? [`  ${JSON.stringify(rest)}`] : []),
    ...(typeof diff === 'string' ? diff.trimEnd().split('\n').map(indented) : []), // in one line nobody could read it
    ...(expires_at === undefined ? [] : [`  until ${expires_at}`]),
  ]
}

const indented = (line: string): string => `  ${line}`
