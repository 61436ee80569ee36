import type { Json, JsonObject } from '../../protocol/json.ts'
import { META } from '../../protocol/meta.ts'
import type { StageStatus } from '../../protocol/types.ts'
import { validate } from '../../protocol/validate.ts'
import type { Change, EventDraft, Kind } from '../../psg/change.ts'
import { type DocumentKind, takeApart } from '../../psg/document.ts'
import type { ProjectGraph } from '../../psg/graph.ts'
import { KINDS } from '../../psg/kinds.ts'
import { sameJson } from '../../psg/plain.ts'
import { stage } from '../../psg/told.ts'
import { children } from '../../psg/view.ts'
import {
  type Ground,
  graphOf,
  type Intent,
  type Maker,
  Overtaken,
  onlyFields,
  type Proposed,
  textOf,
} from './module.ts'

/** Completes what is given of an object: versions, an id, and what the kind begins with. Throws InvalidInput for what does not fit then. */
export const making =
  (kind: DocumentKind, begins: (ground: Pick<Ground, 'clock'>) => JsonObject = () => ({})): Maker =>
  (given, ground) =>
    validate(kind, {
      meta: META,
      [KINDS[kind].idField!]: ground.clock.uuid(),
      ...begins(ground),
      ...given,
    }) as JsonObject

/** Creates an object, in its context's graph or the project's. */
export const creating =
  (kind: DocumentKind, make: Maker, tell: Tell = () => []): Intent =>
  async (input, ground) => {
    const { project } = ground
    const document = make(input, ground)
    const id = document[KINDS[kind].idField!] as string
    const context = String(document.context_id)
    const graph = KINDS[kind].project
      ? project.graph
      : await (kind === 'context' ? project.opening(context) : project.context(context))
    const events = tell({ id, to: String(document.status) })
    return {
      graph,
      changes: takeApart(kind, document),
      events,
      reason: `${kind} ${id} is created`,
      about: { kind, id },
    }
  }

/** What is told of an object that comes to a status, be it by its birth. */
export type Tell = (moved: Moved) => readonly EventDraft[]
export interface Moved {
  readonly id: string
  readonly from?: string
  readonly to: string
}

/** A stage of an object's own pipeline. */
export const stageOf = (
  kind: string,
  { id, from, to }: Moved,
  { event_type, pipeline_id = id, stage_id, stage_status }: Stage,
): EventDraft => {
  const payload = {
    resource_type: kind,
    resource_id: id,
    ...(from !== undefined && { from_status: from }),
    to_status: to,
  }
  return stage(event_type, pipeline_id, stage_id, stage_status, { payload })
}
interface Stage {
  readonly event_type: string
  /** The object itself when absent. */
  readonly pipeline_id?: string
  readonly stage_id: string
  readonly stage_status: StageStatus
}

/** Moves an object along its lifecycle. */
export const moving = (
  kind: DocumentKind,
  status: string,
  more: (ground: Ground) => JsonObject = () => ({}),
  tell: Tell = () => [],
): Intent =>
  changing(kind, [], (_input, data, ground) => ({
    set: { status, ...more(ground) },
    reason: `becomes ${status}`,
    tell: (id) => tell({ id, from: String(data.status), to: status }),
  }))

/** Replaces some of an object's own fields. */
export const updating = (kind: DocumentKind, fields: readonly string[]): Intent =>
  changing(kind, fields, (input) => ({ set: input, reason: 'is changed' }))

/** What becomes of one object. */
interface Becoming {
  readonly set: JsonObject
  readonly reason: string
  readonly tell?: (id: string) => readonly EventDraft[]
}

/** Any other change of one object; `decide` sees the object as it stands. */
export const changing = (
  kind: DocumentKind,
  fields: readonly string[],
  decide: (input: JsonObject, data: JsonObject, ground: Ground) => Becoming,
): Intent =>
  altering(kind, fields, (id, { [KINDS[kind].idField!]: _, ...input }, graph, ground) => {
    const decided = () => decide(input, graph.get(kind, id)!.data as JsonObject, ground)
    const { reason, tell } = decided()
    const events = tell?.(id)
    const changes = () => {
      const now = decided()
      if (!sameJson(now.tell?.(id) as Json | undefined, events as Json | undefined)) throw new Overtaken()
      return [{ kind: 'node_update', node: kind, id, set: now.set } as Change]
    }
    return { changes, reason: `${kind} ${id} ${reason}`, ...(events && { events }) }
  })

/** A change of an object and what belongs to it, told by the object's id and these fields. */
export const altering =
  (
    kind: DocumentKind,
    fields: readonly string[],
    propose: (
      id: string,
      input: JsonObject,
      graph: ProjectGraph,
      ground: Ground,
    ) => Pick<Proposed, 'changes' | 'events' | 'reason'>,
  ): Intent =>
  async (input, ground) => {
    const idField = KINDS[kind].idField!
    onlyFields(input, [idField, ...fields])
    const id = textOf(input, idField)
    const graph = await graphOf(kind, id, ground)
    return { graph, ...propose(id, input, graph, ground), about: { kind, id } }
  }

/** Adds a part to an object: a step, a message, a participant, a node. */
export const addingTo =
  (
    kind: DocumentKind,
    part: Kind,
    make: (input: JsonObject, ground: Ground) => JsonObject,
    tell?: (id: string, data: JsonObject) => readonly EventDraft[],
  ): Intent =>
  async (given, ground) => {
    const ownerField = KINDS[kind].idField!
    const owner = textOf(given, ownerField)
    const { [ownerField]: _, ...input } = given
    const graph = await graphOf(kind, owner, ground)
    const data = make(input, ground)
    const idField = KINDS[part].idField
    const changes = () => {
      const at = nextPlace(graph, kind, owner)
      const id = idField ? String(data[idField]) : `${owner}/${at}`
      return [{ kind: 'node_add', node: part, id, owner, at, data } as unknown as Change]
    }
    return {
      graph,
      changes,
      reason: `${kind} ${owner} gets a ${part}`,
      about: { kind, id: owner },
      ...(tell && { events: tell(owner, data) }),
    }
  }

const nextPlace = ({ state }: ProjectGraph, kind: DocumentKind, owner: string): number =>
  (children(state, kind, owner).at(-1)?.at ?? -1) + 1
