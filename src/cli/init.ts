import { lstat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CONFIG_FILES } from '../config-check.ts'
import { EXCLUDED } from '../drift/select.ts'
import type { NamedFlow } from '../orchestrator/named-flow.ts'
import { Refused } from '../protocol/errors.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'

export async function run({ io }: VerbCall): Promise<number> {
  const files: { [name: string]: unknown } = {
    // What is left out anyway, in words: whoever adds to the list goes on leaving it out.
    'mplp.config.json': { vsl: 'sqlite:./.mplp/state.db', root: '.', drift: { exclude: EXCLUDED } },
    'flow.json': FIRST_FLOW,
  }
  // Another config would be read instead of ours, or ours instead of it; a link that leads to nothing is none, and is in the way all the same.
  for (const name of [...CONFIG_FILES, ...Object.keys(files)]) if (await isThere(io.cwd, name)) throw taken(name)
  for (const [name, value] of Object.entries(files))
    await writeFile(join(io.cwd, name), `${JSON.stringify(value, undefined, 2)}\n`, { flag: 'wx' }).catch(
      (cause: NodeJS.ErrnoException) => {
        throw cause.code === 'EEXIST' ? taken(name, { cause }) : unwritable(name, cause)
      },
    )
  io.result(Object.keys(files), () => `made ${Object.keys(files).join(' and ')}; now: mplp run flow.json`)
  return EXIT.done
}

const isThere = (folder: string, name: string): Promise<boolean> =>
  lstat(join(folder, name)).then(
    () => true,
    (cause: NodeJS.ErrnoException) => {
      if (cause.code === 'ENOENT') return false
      throw unwritable(name, cause)
    },
  )

const taken = (name: string, options?: ErrorOptions): Refused =>
  new Refused(`${name} is there already`, 'init works in a folder without it', options)

const unwritable = (name: string, cause: NodeJS.ErrnoException): Refused =>
  new Refused(`${name} cannot be written (${cause.code})`, 'choose a folder that this process may write to', { cause })

/** Two file steps: write a greeting, read it back. */
const FIRST_FLOW: NamedFlow = {
  title: 'A first plan',
  objective: 'Write a file and read it back',
  steps: {
    write: {
      description: 'Write a greeting',
      action_type: 'file_operation',
      params: { operation: 'write', path: 'hello.txt', content: 'hello\n' },
    },
    read: {
      description: 'Read it back',
      dependencies: ['write'],
      action_type: 'file_operation',
      params: { operation: 'read', path: 'hello.txt' },
    },
  },
}
