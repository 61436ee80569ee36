import { type Config, isSealingKey, secretFromEnv } from '../config.ts'
import { openConfigured } from '../configured-store.ts'
import { withoutEnded } from '../orchestrator/without-ended.ts'
import { InvalidInput, Refused } from '../protocol/errors.ts'
import { counted } from '../protocol/shown.ts'
import { writeTrailing } from '../psg/write-trailing.ts'
import { copyStore } from '../vsl/copy.ts'
import { saidBehind } from './behind.ts'
import { EXIT } from './io.ts'
import { storeNamed } from './load-config.ts'
import { timeIn } from './time-in.ts'
import type { VerbCall } from './verb.ts'
import { warning, withProject } from './with-runtime.ts'

export async function run({ args, options, io }: VerbCall): Promise<number> {
  const named = storeNamed('<to>', args[0]!) // before anything is opened
  const given = options.withoutEnded
  const before = given === undefined ? undefined : timeIn('--without-ended', String(given))
  const forget = options.forgetBus as readonly string[] | undefined
  if (forget && before === undefined)
    throw new InvalidInput('the command line', [
      { path: '--forget-bus', rule: 'ended', message: 'goes with --without-ended: a whole copy keeps every bus' },
    ])
  const sealed = sealing(options, await io.config())
  return withProject(io, async ({ store }) => {
    const { signal } = io
    if (before !== undefined) io.progress('looking for what has ended')
    const part =
      before === undefined ? undefined : await withoutEnded(store, { before, signal, ...(forget && { forget }) })
    const target = await openConfigured({ ...sealed, ...named }, warning(io)).catch(ofTarget)
    try {
      const counts = await copyStore(part ?? store, target, {
        verify: true,
        signal,
        onProgress: (counts) => io.progress(said(counts)),
      })
      if (target.traits.legible) await writeTrailing(target)
      const rest = part && { left_out: [...part.leftOut], behind: [...part.behind] }
      io.result({ ...counts, ...rest }, () =>
        [
          `copied and compared: ${said(counts)}`,
          ...(rest ? [`left out: ${counted(rest.left_out.length, 'context')}`, ...saidBehind(rest.behind)] : []),
        ].join('\n'),
      )
      return EXIT.done
    } finally {
      await target.close()
    }
  })
}

/** The config with the key of the copy, which is that of the store unless something else is said. */
function sealing(options: VerbCall['options'], config: Config): Config {
  const { keyEnv, decrypt } = options
  const { encryption_key, ...plain } = config
  if (decrypt && keyEnv !== undefined) throw badKey('--decrypt', 'does not go with --key-env, which encrypts')
  if (decrypt && encryption_key === undefined)
    throw badKey('--decrypt', 'needs the key of the store, as MPLP_ENCRYPTION_KEY')
  if (decrypt) return plain
  return keyEnv === undefined ? config : { ...plain, encryption_key: keyIn(String(keyEnv)) }
}

function keyIn(variable: string): string {
  const key = secretFromEnv(variable)
  if (isSealingKey(key)) return key
  throw badKey('--key-env', `names ${variable}, which is not ${key === undefined ? 'set' : '32 bytes as base64'}`)
}

const badKey = (path: string, message: string): InvalidInput =>
  new InvalidInput('the command line', [{ path, rule: 'key', message }])

/** What is said of keys, or of a server, is said of the store that is copied to. */
function ofTarget(error: unknown): never {
  if (!(error instanceof Refused)) throw error
  throw new Refused('the target of the copy is refused', `name a new one, or mend this: ${error.message}`, {
    cause: error,
  })
}

const said = (counts: object): string =>
  Object.entries(counts)
    .map(([name, count]) => `${count} ${name}`)
    .join(', ')
