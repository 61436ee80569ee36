import { NotFound } from '../protocol/errors.ts'
import { EXIT } from './io.ts'
import { pathIn } from './path-in.ts'
import type { VerbCall } from './verb.ts'
import { withTracker } from './with-tracker.ts'

export async function run(call: VerbCall): Promise<number> {
  const [which, folder] = call.args
  return withTracker(call, folder, {}, async (tracker) => {
    const named = pathIn(tracker.root, call.io.cwd, which!)
    const finding = tracker
      .findings()
      .find(({ finding_id, path, from }) => finding_id === which || path === named || from === named)
    if (!finding) throw new NotFound('finding', which!)
    const diff = await tracker.diff(finding)
    call.io.result(
      { finding, diff: diff ?? null },
      () => diff?.replace(/\n$/, '') ?? `${finding.path} was ${finding.what}; no text to compare`,
    )
    return EXIT.done
  })
}
