import type { Strategy } from '../drift/drift.ts'
import { toldResults } from './findings.ts'
import { EXIT } from './io.ts'
import { pathIn } from './path-in.ts'
import type { VerbCall } from './verb.ts'
import { withTracker } from './with-tracker.ts'

export async function run(call: VerbCall): Promise<number> {
  const [which, folder] = call.args
  const strategy = call.options.strategy as Strategy
  return withTracker(call, folder, {}, async (tracker) => {
    const path = pathIn(tracker.root, call.io.cwd, which!)
    const named = tracker.findings().some((finding) => finding.path === path || finding.from === path) ? path : which!
    const results = await tracker.reconcile(which === 'all' ? 'all' : [named], strategy, { actor: 'cli' })
    call.io.result(results, () => (results.length === 0 ? 'graph and files agree' : toldResults(results)))
    if (results.some(({ outcome }) => outcome === 'asked')) return EXIT.waiting
    const undone = new Set<string>(['overtaken', 'refused', 'failed'])
    return results.some(({ outcome }) => undone.has(outcome)) ? EXIT.failed : EXIT.done
  })
}
