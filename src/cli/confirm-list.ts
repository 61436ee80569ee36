import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

export async function run({ io }: VerbCall): Promise<number> {
  return withRuntime(io, async (runtime) => {
    const questions = await runtime.waiting()
    io.result(questions, () =>
      questions.length === 0
        ? 'nothing waits for a person'
        : questions
            .map(({ confirm, shows, expires_at }) =>
              [
                `${io.paint('bold', confirm.confirm_id)} ${confirm.reason ?? confirm.target_type}`,
                ...(shows ? [`  ${JSON.stringify(shows)}`] : []),
                ...(expires_at === undefined ? [] : [`  until ${expires_at}`]),
              ].join('\n'),
            )
            .join('\n'),
    )
    return EXIT.done
  })
}
