#!/usr/bin/env node
import { main } from './program.ts'

const enough = new AbortController()
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  enough.abort() // whoever read us has enough: `mplp events | head`
})
process.stderr.on('error', () => undefined) // there is nobody to complain to: how it ends still counts, `mplp run flow.json 2>&1 | head`
process.exitCode = await main(process.argv.slice(2), {
  out: process.stdout,
  err: process.stderr,
  colour: process.stdout.isTTY === true && process.env.NO_COLOR === undefined,
  enough: enough.signal,
})
