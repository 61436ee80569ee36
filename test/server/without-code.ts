import { compileSchema } from '../../src/ael/schema.ts'
import { openRuntime } from '../../src/compose.ts'
import type { MplpError } from '../../src/protocol/errors.ts'
import { serve } from '../../src/server/server.ts'

// Asks for what needs code that is made of text, and prints what it is told.
const told = ({ code, message }: MplpError) => console.log(code, message)
const runtime = await openRuntime({ vsl: 'memory:' })
await serve(runtime, { port: 0 }).then((server) => server.close(), told)
try {
  compileSchema({ type: 'string' }, 'input')
} catch (error) {
  told(error as MplpError)
}
await runtime.close()
console.log('closed')
