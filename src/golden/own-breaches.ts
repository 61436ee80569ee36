import { mapBreaches } from '../orchestrator/profiles/map.ts'
import { saBreaches } from '../orchestrator/profiles/sa.ts'
import type { Json, JsonObject } from '../protocol/json.ts'
import type { Session } from './driver.ts'

/** Ids of the profiles' invariants that do not hold for what is there: each plan with its context and its traces, each session, and what was told. */
export async function ownBreaches(
  { documents, events }: Pick<Session, 'documents' | 'events'>,
  switched?: ReadonlySet<string>,
): Promise<readonly string[]> {
  const [context] = await documents('context')
  const traces = (await documents('trace')) as readonly JsonObject[]
  const plans = (await documents('plan')) as readonly JsonObject[]
  const subjects = plans.flatMap((plan): readonly { [scope: string]: Json }[] => {
    const own = traces.filter((trace) => trace.plan_id === plan.plan_id)
    return own.length === 0 ? [{ plan }] : own.map((trace) => ({ plan, trace }))
  })
  const breaches = [
    ...(context === undefined
      ? []
      : (subjects.length > 0 ? subjects : [{}]).flatMap((of) => saBreaches({ context, ...of }, switched))),
    ...(await documents('collab')).flatMap((collab) => mapBreaches({ collab }, switched)),
    ...mapBreaches({ events: await events() }, switched),
  ]
  return [...new Set(breaches.map(({ id }) => id))]
}
