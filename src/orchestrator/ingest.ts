import { needed, oneOf, refuseUnlessFit, text } from '../protocol/fields.ts'
import type { JsonObject } from '../protocol/json.ts'
import { validate } from '../protocol/validate.ts'
import { insist } from '../psg/insist.ts'
import { plain } from '../psg/plain.ts'
import type { Project } from '../psg/project.ts'

export type IntegrationKind = 'tool-event' | 'file-update-event' | 'git-event' | 'ci-event'

/** How each is told. */
const EVENT_TYPES: { readonly [K in IntegrationKind]: string } = {
  'tool-event': 'tool_execution',
  'file-update-event': 'file_update',
  'git-event': 'git_operation',
  'ci-event': 'ci_pipeline',
}

export const INTEGRATION_KINDS = Object.keys(EVENT_TYPES) as readonly IntegrationKind[]

/** Takes in an event from outside: it changes nothing in the graph and is told with its commit. Throws InvalidInput, NotFound for a context. */
export async function ingest(
  project: Project,
  context: string,
  kind: IntegrationKind,
  event: unknown,
  given: { readonly source?: string },
): Promise<void> {
  refuseUnlessFit('options', given, { source: text })
  refuseUnlessFit('integration', { kind }, { kind: needed(oneOf(...INTEGRATION_KINDS)) })
  const payload = validate(kind, plain(event, '', kind) as JsonObject) // a copy: whoever gave it may change it, also while it is looked at
  const { source } = given
  const event_type = EVENT_TYPES[kind]
  const told = { event_type, event_family: 'external_integration', ...(source !== undefined && { source }), payload }
  await insist(await project.context(context), [], {
    actor: source ?? 'outside',
    reason: `${event_type} from outside`,
    events: [{ event: told }],
  })
}
