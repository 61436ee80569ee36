import { InvalidInput } from '../protocol/errors.ts'
import type { AtOnce } from './places.ts'

/** Throws InvalidInput for places of a type that no adapter carries out: nothing would be limited by them. */
export function checkPlaces(atOnce: AtOnce, types: ReadonlySet<string>): void {
  if (types.has('*')) return // it carries out whatever comes
  const unknown = Object.keys(atOnce).filter((action_type) => action_type !== '*' && !types.has(action_type))
  if (unknown.length === 0) return
  const message = `limits nothing: there is no adapter for it; there are ${[...types].sort().join(', ')}, and * for all together`
  throw new InvalidInput(
    'places',
    unknown.map((path) => ({ path, rule: 'adapter', message })),
  )
}
