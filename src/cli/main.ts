#!/usr/bin/env node
import { warning } from './io.ts'
import { main } from './program.ts'

const enough = new AbortController()
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
  if (code !== 'EPIPE' && !enough.signal.aborted) {
    const message = `not all of the output could be written (${code})`
    process.stderr.write(`${warning(message, process.argv.includes('--json'))}\n`)
    process.exitCode ||= 1 // a full disk is no success, however well the rest goes
  }
  enough.abort() // whoever read us has enough: `mplp events | head`
})
process.stderr.on('error', () => undefined) // there is nobody to complain to: how it ends still counts, `mplp run flow.json 2>&1 | head`
if (process.argv.includes('--json') && process.listenerCount('warning') > 0) {
  process.removeAllListeners('warning') // Node's own writes lines that are no JSON
  process.on('warning', ({ name, message }) => process.stderr.write(`${warning(`${name}: ${message}`, true)}\n`))
}
const code = await main(process.argv.slice(2), {
  out: process.stdout,
  err: process.stderr,
  colour: process.stdout.isTTY === true && !process.env.NO_COLOR,
  enough: enough.signal,
})
process.exitCode = code || process.exitCode

/** For what still has an end of its own, as a log that is being sent. */
const LINGER_MS = 2_000
const held = () => {
  const message = 'the process is ended, though the config or a step that did not heed its signal still holds something'
  process.stderr.write(`${warning(message, process.argv.includes('--json'))}\n`)
  process.stdout.write('', () => process.exit()) // behind all that was written
}
setTimeout(held, LINGER_MS).unref() // a connection that the config's functions share would keep it for ever
