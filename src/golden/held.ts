import { isDeepStrictEqual } from 'node:util'
import { DOCUMENT_KINDS } from '../psg/document.ts'
import type { Session } from './driver.ts'
import type { Act } from './flow-script.ts'

/** Everything that a runtime shows, by name. */
type Held = ReadonlyMap<string, unknown>

/** Must the runtime refuse all that this act asks for? A way back that somebody stands in refuses by asking a person, and the question is there then. */
const isRefusal = ({ verb, refused }: Act): boolean =>
  (refused !== undefined && verb !== 'rollback' && verb !== 'reconcile') || verb === 'forbidden'
const LOOKS: ReadonlySet<string> = new Set(['expect', 'told', 'verify', 'settle', 'underway'])
/** After these a run goes on by itself, until it has settled. */
const STIRS: ReadonlySet<string> = new Set([
  ...['submit', 'decide', 'propose', 'signal', 'cancel', 'crash', 'freeze', 'thaw', 'rollback', 'reconcile'],
])

/** Watches over a flow that what a runtime refuses leaves nothing behind. While a run is under way nobody can tell what came of what. */
export function refusals(session: Session) {
  let held: Held | undefined
  let isStill = true
  return {
    async before(act: Act): Promise<void> {
      if (isRefusal(act) && isStill) held ??= await heldBy(session)
    },
    /** What has changed though it must not, of an act that went as it had to. */
    async after(act: Act): Promise<string | undefined> {
      if (LOOKS.has(act.verb)) {
        if (act.verb === 'settle') isStill = true
        return undefined
      }
      if (isRefusal(act)) return held && firstChanged(held, await heldBy(session))
      held = undefined
      if (STIRS.has(act.verb)) isStill = false
      return undefined
    },
  }
}

async function heldBy(session: Session): Promise<Held> {
  const held = new Map<string, unknown>()
  for (const kind of DOCUMENT_KINDS) held.set(`the ${kind} documents`, await session.documents(kind))
  return held.set('the events', await session.events())
}

function firstChanged(before: Held, after: Held): string | undefined {
  for (const [name, value] of after)
    if (!isDeepStrictEqual(value, before.get(name))) return `was refused, but ${name} are others than before`
  return undefined
}
