import { toldFindings } from './findings.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withFolder } from './with-tracker.ts'

/** What was found and is not settled; the disk is not looked at. */
export async function run(call: VerbCall): Promise<number> {
  return withFolder(call, call.args[0], {}, async (folder) => {
    const open = await folder.findings()
    call.io.result(open, () => toldFindings(open))
    return EXIT.done
  })
}
