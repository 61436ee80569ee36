import type { Adapter } from './adapter.ts'
import { finalFailure } from './failure.ts'
import { isPromised } from './promised.ts'

/** What an adapter says must never be seen. Throws where it cannot be known, without what was said: to go on would be to show it. */
export function secretsOf(adapter: Adapter): readonly string[] {
  if (adapter.secrets === undefined) return NONE
  const secrets = asked(adapter)
  if (Array.isArray(secrets)) return secrets
  const found = isPromised(secrets) ? 'a promise: they are needed at once' : 'no list'
  throw finalFailure(`the secrets of the adapter for actions of type ${adapter.action_type} are ${found}`)
}

function asked(adapter: Adapter): readonly string[] | undefined {
  try {
    return adapter.secrets?.()
  } catch {
    throw finalFailure(
      `the secrets of the adapter for actions of type ${adapter.action_type} cannot be known: it throws`,
    )
  }
}

const NONE: readonly string[] = []
