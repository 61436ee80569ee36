import { InvalidInput } from '../protocol/errors.ts'
import type { Json } from '../protocol/json.ts'
import { idsOf } from './ids-of.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

export async function run({ args, options, io }: VerbCall): Promise<number> {
  const [id, name] = args as [string, string]
  const payload = payloadOf(options.payload as string)
  return withRuntime(io, async (runtime) => {
    await runtime.signal(id, name, payload)
    io.result(
      { ...idsOf(await runtime.get(id)), signal: name, payload },
      () => `the run has the signal ${name}; a step that waits for it takes it`,
    )
    return EXIT.done
  })
}

function payloadOf(text: string): Json {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new InvalidInput('--payload', [{ path: '', rule: 'json', message: 'is not JSON', found: text }], { cause })
  }
}
