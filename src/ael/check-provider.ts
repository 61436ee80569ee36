import type { Problem } from '../protocol/errors.ts'
import { shown } from '../protocol/shown.ts'
import { finalFailure } from './failure.ts'
import type { Provider } from './llm-provider.ts'
import { isPromised } from './promised.ts'

/** What is wrong with what was given as a provider. */
export function providerProblems(provider: unknown, path: string): readonly Problem[] {
  if (typeof Object(provider).model !== 'function' || typeof Object(provider).secrets !== 'function')
    return [{ path, rule: 'type', message: 'must be a provider', found: shown(provider) }]
  try {
    keysOf(provider as Provider)
    return []
  } catch {
    return [
      { path: `${path}.secrets`, rule: 'type', message: 'must give a list at once: what is in it is shown nowhere' },
    ]
  }
}

/** Throws where they are no list: nobody would know what to keep to themselves. */
export function keysOf(provider: Provider): readonly string[] {
  const keys: unknown = provider.secrets()
  if (isPromised(keys) || !Array.isArray(keys)) throw finalFailure('the secrets of a provider are no list')
  return keys
}
