import type { Config } from '../config.ts'
import { openConfigured } from '../configured-store.ts'
import { Corrupt, Refused } from '../protocol/errors.ts'
import { messageOf } from '../protocol/thrown.ts'
import { openProject } from '../psg/project.ts'
import { checkBuses } from './doctor-buses.ts'
import { checkIndexes } from './doctor-indexes.ts'
import { checkNode, checkWatches } from './doctor-machine.ts'
import { checkQuestions, checkRuns, type RunChecks } from './doctor-runs.ts'
import { checkSecrets } from './doctor-secrets.ts'
import { checkClock, checkDurability, checkLayout, checkThere, checkWriting } from './doctor-store.ts'
import { EXIT, type Io, unbroken } from './io.ts'
import { lacksBy } from './lacks-by.ts'
import { storeIn } from './missing-store.ts'
import type { VerbCall } from './verb.ts'
import { warning } from './with-runtime.ts'

/** One thing that was looked at. A warning or a failure says the remedy. */
export interface Check {
  readonly check: string
  readonly verdict: 'ok' | 'warning' | 'failed'
  readonly says: string
  readonly remedy?: string
}

export async function run({ io }: VerbCall): Promise<number> {
  const checks: Check[] = [checkNode(process.versions.node), await checkWatches()]
  const amiss = (error: unknown) => void checks.push(failed('config', error, 'mend what it names'))
  const config = await io.config().catch(amiss)
  if (config) {
    checks.push(...checkSecrets(config))
    const stores = stored(config, io, (await lacksBy(config).catch(amiss)) ?? undefined)
    checks.push(...(await stores.catch((error) => [failed('store', error, 'mplp config print shows which is meant')])))
    io.signal.throwIfAborted() // what was looked at so far is neither good nor bad
  }
  io.result(checks, () => checks.map((check) => line(check, io)).join('\n'))
  return checks.some(({ verdict }) => verdict === 'failed') ? EXIT.failed : EXIT.done
}

/** What failed, with the remedy that the error itself knows, or else with this one. */
function failed(check: string, error: unknown, remedy: string): Check {
  const says = messageOf(error)
  if (!(error instanceof Refused || error instanceof Corrupt)) return { check, verdict: 'failed', says, remedy }
  return { check, verdict: 'failed', says: says.replace(`; ${error.remedy}`, ''), remedy: error.remedy }
}

async function stored(config: Config, io: Io, lacks: RunChecks['lacks']): Promise<readonly Check[]> {
  const onWarning = () => undefined // what it would warn of is one of the checks
  const onProgress = (line: string) => {
    io.progress(line)
    io.signal.throwIfAborted()
  }
  const store = await openConfigured(config, { ...warning(io), onWarning, create: false }).catch((error: unknown) =>
    checkThere(config, error),
  )
  if ('check' in store) return [store]
  try {
    const project = await openProject(store)
    return [
      checkDurability(store.traits, storeIn(config)),
      ...(await checkWriting(store)),
      await checkLayout(store),
      await checkClock(store),
      await checkIndexes(project),
      ...(await checkBuses(store, config.bus)),
      ...(await checkRuns(project, { onProgress, ...(lacks && { lacks }) })),
      ...(await checkQuestions(project)),
    ]
  } finally {
    await store.close()
  }
}

function line({ check, verdict, says, remedy }: Check, io: Io): string {
  const colour = verdict === 'ok' ? 'green' : verdict === 'warning' ? 'yellow' : 'red'
  return `${io.paint(colour, verdict)} ${check}: ${unbroken(says)}${remedy === undefined ? '' : `\n  remedy: ${remedy}`}`
}
