import { once } from 'node:events'
import type { Strategy } from '../drift/drift.ts'
import { toldFindings } from './findings.ts'
import { EXIT, unbroken } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withTracker } from './with-tracker.ts'

export async function run(call: VerbCall): Promise<number> {
  const { args, options, io } = call
  const strategy = options.strategy as Strategy | undefined
  let hasAsked = false
  return withTracker(
    call,
    args[0],
    {
      makes: true,
      watch: true,
      signal: io.signal,
      ...(strategy !== undefined && { rules: [{ match: '**', strategy }] }),
      onFindings: (news) => {
        for (const finding of news) io.line({ finding }, () => toldFindings([finding]))
        if (hasAsked || news.every(({ confirm_id }) => confirm_id === undefined)) return
        hasAsked = true
        if (!io.json) io.warn(ASKED)
      },
      onReconciled: (results) => {
        for (const { finding, outcome } of results)
          io.line({ finding_id: finding.finding_id, path: finding.path, outcome }, () =>
            unbroken(`${outcome} ${finding.path}`),
          )
      },
    },
    async (tracker) => {
      io.line({ watching: tracker.root }, () => `watching ${tracker.root} (Ctrl-C ends it)`)
      if (!io.signal.aborted) await once(io.signal, 'abort')
      await tracker.idle()
      return EXIT.done
    },
  )
}

const ASKED =
  'people are asked about such changes: mplp drift reconcile <path> --strategy files, graph or merge settles one, mplp list shows them'
