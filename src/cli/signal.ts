import { idsOf } from './ids-of.ts'
import { EXIT } from './io.ts'
import { jsonIn } from './json-in.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

export async function run({ args, options, io }: VerbCall): Promise<number> {
  const [id, name] = args as [string, string]
  const payload = jsonIn('--payload', options.payload as string)
  return withRuntime(io, async (runtime) => {
    await runtime.signal(id, name, payload)
    io.result(
      { ...idsOf(await runtime.get(id)), signal: name, payload },
      () => `the run has the signal ${name}; a step that waits for it takes it`,
    )
    return EXIT.done
  })
}
