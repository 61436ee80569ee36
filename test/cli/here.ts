import { main } from '../../src/cli/program.ts'
import { type Ended, parsed } from './mplp.ts'

/** Runs the command line in this process, in a folder; what asks to go on until Ctrl-C gets it once it has said `until`. One at a time: a process is in one folder. */
export async function mplpHere(folder: string, args: readonly string[], until?: string): Promise<Ended> {
  const before = process.cwd()
  process.chdir(folder)
  let [out, err] = ['', '']
  const told = (text: string) => {
    const isSaid = until === undefined || out.includes(until)
    out += text
    if (!isSaid && out.includes(until)) setImmediate(() => process.emit('SIGINT'))
  }
  try {
    const code = await main(args, {
      out: { write: told },
      err: {
        write: (text) => {
          err += text
        },
      },
      colour: false,
      now: () => 0, // however slow the machine is, nothing is said of progress
    })
    return { code, out, err }
  } finally {
    process.chdir(before)
  }
}

/** The same with `--json`: what it printed, parsed line by line. */
export const hereJson = async <T>(folder: string, args: readonly string[]): Promise<Ended & { readonly values: T[] }> =>
  parsed(await mplpHere(folder, [...args, '--json']))
