import { type Config, effectiveConfig, type OpenOwnStore } from './config.ts'
import { Corrupt, InvalidInput, MplpError, NotFound, Refused, Unavailable } from './protocol/errors.ts'
import { shown } from './protocol/shown.ts'
import { messageOf } from './protocol/thrown.ts'
import type { Backend, ValueStateLayer } from './vsl/backend.ts'
import { store as backend } from './vsl/check-options.ts'
import { isSealed } from './vsl/encrypted-keys.ts'
import { keyId } from './vsl/keyring.ts'
import { isBareStore } from './vsl/lifted.ts'
import { fromBare, MAX_ENTRY_BYTES, openStore, withEncryption } from './vsl/vsl.ts'

export interface Opening {
  /** Told when the store may forget what it has acknowledged. Default: a warning of the process. */
  readonly onWarning?: (message: string) => void
  /** What goes wrong beside what the store was asked for. Default: a warning of the process. */
  readonly onError?: (error: unknown) => void
  /** The store is made if it is not there, unless this is false: then NotFound is thrown, and nothing is left behind. */
  readonly create?: boolean
}

/** The store that a config names, sealed if it says so. */
export async function openConfigured(config: Config, opening: Opening = {}): Promise<Backend> {
  const { vsl, encryption_key, drift, actions } = effectiveConfig(config)
  const keepBytes = Math.max(drift?.keep_bytes ?? 0, actions?.max_output_bytes ?? 0)
  const opened = await (typeof vsl === 'string' ? openNamed(vsl, opening, keepBytes) : openOwn(vsl))
  try {
    if (encryption_key !== undefined) return await sealed(opened, [encryption_key].flat())
    if (!(await isSealed(opened))) return opened
    throw new Refused('the store is encrypted', 'give its key as MPLP_ENCRYPTION_KEY')
  } catch (error) {
    await opened.close()
    throw error
  }
}

function openNamed(url: string, { onWarning, onError, create = true }: Opening, keepBytes: number): Promise<Backend> {
  const isRedis = /^rediss?:/.test(url)
  const isServer = isRedis || /^postgres(ql)?:/.test(url)
  return openStore(url, {
    ...(!create && !url.startsWith('memory:') && { create }), // that is never there before
    ...(isServer && onWarning && { onWarning }),
    ...(url.startsWith('file:') && onError && { onError }),
    ...(isRedis && { maxBlobBytes: Math.max(MOST_BLOB_BYTES, keepBytes + SEAL_BYTES) }),
  })
}

const isBackend = (opened: unknown): opened is Backend => backend.fits(opened)

async function openOwn(open: OpenOwnStore): Promise<Backend> {
  const opened = await Promise.resolve().then(open).catch(unopened)
  if (isBackend(opened)) return opened
  if (isBareStore(opened) && !('commit' in opened)) return liftedAndClosed(opened)
  const message = 'has opened what is no store: it has neither all of a Backend nor get and set alone'
  throw new InvalidInput('config', [{ path: 'vsl', rule: 'store', message, found: shown(opened) }])
}

/** What it stands on is away as a server of ours may be, and that is no bug of ours. */
function unopened(cause: unknown): never {
  if (cause instanceof MplpError) throw cause
  throw new Unavailable('the store', `it could not be opened: ${messageOf(cause)}`, { cause })
}

/** It has been opened for us, so that its connections end with us: a lifted store leaves a bare one to whoever brought it. */
async function liftedAndClosed(bare: ValueStateLayer & { close?(): unknown }): Promise<Backend> {
  const close = async () => void (await bare.close?.())
  const lifted = await fromBare(bare).catch(async (error) => {
    await close()
    throw error
  })
  let closing: Promise<void> | undefined
  return {
    ...lifted,
    close() {
      closing ??= lifted.close().then(close)
      return closing
    },
  }
}

/** Redis takes less unless it is asked. A step must not fail once its work is done because its output, of 16 MiB unless told, cannot be kept. */
const MOST_BLOB_BYTES = MAX_ENTRY_BYTES
/** More than encryption adds. */
const SEAL_BYTES = 1024

/** A store that was sealed when a config had one key only knows it as `config`, and does not say which of several that was. */
async function sealed(store: Backend, given: readonly string[]): Promise<Backend> {
  const keys = given.map((key) => ({ id: keyId(key), key }))
  const attempts = [keys, ...given.map((key) => [...keys, { id: OLD_ID, key }])]
  let refusal: unknown
  for (const attempt of attempts)
    try {
      return await withEncryption(store, attempt)
    } catch (error) {
      if (!(error instanceof Refused && isOfKeys(error.cause))) throw error
      refusal = wrongKey(error)
      if (attempt === keys && !(error.cause instanceof NotFound && error.cause.id === OLD_ID)) break
    }
  throw refusal
}
const OLD_ID = 'config'

/** One that does not open what it should, or one that is not there. */
const isOfKeys = (cause: unknown): boolean => cause instanceof Corrupt || cause instanceof NotFound

const wrongKey = (cause: Refused): Refused =>
  new Refused(
    'MPLP_ENCRYPTION_KEY, or encryption_key in the config, is not the key of this store',
    'give the key that it was sealed with; of a store whose keys were changed, all of them, the newest first',
    { cause },
  )
