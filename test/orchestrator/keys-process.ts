import { createInterface } from 'node:readline'
import { openRuntime } from '../../src/compose.ts'
import { largeText } from './large-text.ts'

// A worker with a config of its own: its steps give large texts, and ask of the texts of others whether they are whole. A line on stdin ends it.
const [vsl, keys] = process.argv.slice(2) as [string, string]
const runtime = await openRuntime(
  {
    vsl,
    encryption_key: JSON.parse(keys) as string[],
    patrol_ms: 50,
    functions: {
      give(name) {
        console.log('call')
        return largeText(String(name))
      },
      isWhole(given) {
        console.log('call')
        const { name, text } = given as { name: string; text: string }
        return text === largeText(name)
      },
    },
  },
  { onError: (error) => console.log(`error ${String(error)}`) },
)
console.log('up')
for await (const _ of createInterface({ input: process.stdin })) break
await runtime.close()
console.log('closed')
