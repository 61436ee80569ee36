import type { Delivery } from '../bus/transport.ts'
import { InvalidInput, NotFound } from '../protocol/errors.ts'
import { FAMILIES } from '../protocol/families.ts'
import type { Project } from '../psg/project.ts'

/** The events of these families, comma separated, and of this plan; all when absent. Throws InvalidInput for a family that there is not. */
export function wantedEvents(family: string | undefined, plan: string | undefined): (delivery: Delivery) => boolean {
  const families = family?.split(',').map((name) => name.trim())
  const unknown = families?.find((name) => !FAMILIES.includes(name))
  if (unknown !== undefined)
    throw new InvalidInput('events', [
      { path: 'family', rule: 'enum', message: `is none of ${FAMILIES.join(', ')}`, found: unknown },
    ])
  return ({ event, plan_id }) =>
    (families === undefined || families.includes(String(event.event_family))) &&
    (plan === undefined || plan_id === plan)
}

/** Throws NotFound for a plan that there is not: who wants only what is there now would take no events for an answer. */
export async function refuseUnknownPlan(project: Project, plan: string): Promise<void> {
  if ((await project.locate(plan))?.kind !== 'plan') throw new NotFound('plan', plan)
}
