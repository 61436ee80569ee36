import { InvalidInput, NotFound } from '../protocol/errors.ts'
import { anything, having, needed, object, refuseUnlessFit, text } from '../protocol/fields.ts'
import { problem } from '../protocol/problem.ts'
import type { Context, Plan, PlanStatus } from '../protocol/types.ts'
import type { Changes, CommitOptions } from './change.ts'
import { takeApart } from './document.ts'
import type { ProjectGraph } from './graph.ts'
import { checkOptions } from './input.ts'
import { insist } from './insist.ts'
import { endPlan, move, type Proposing, proposePlan, removeStep, startPlan } from './moves.ts'
import type { Project } from './project.ts'
import { children } from './view.ts'

/** The protocol's `/psg/…` paths as functions: documents in, documents out, everything else is the graph's. */
export interface Paths {
  /** `GET /psg/contexts/:id`. Throws NotFound. */
  getContext(id: string): Promise<Context>
  /** `POST /psg/contexts` */
  postContext(context: unknown, options: CommitOptions): Promise<Context>
  /** `GET /psg/plans/:id`. Throws NotFound. */
  getPlan(id: string): Promise<Plan>
  /** `POST /psg/plans` */
  postPlan(plan: unknown, options: CommitOptions): Promise<Plan>
  /**
   * `PATCH /psg/plans/:id/status`. To `proposed` it asks for approval with a Confirm; to `in_progress` it uses the approval up in the name of
   * `usedBy`; to an end it ends the steps too.
   */
  patchPlanStatus(id: string, status: PlanStatus, options: PatchOptions): Promise<Plan>
  /** `DELETE /psg/plans/:id`: with its steps and bindings, leaving tombstones. Refused once anything else refers to it. */
  deletePlan(id: string, options: CommitOptions): Promise<void>
}

export interface PatchOptions extends CommitOptions {
  readonly proposing?: Partial<Proposing>
  readonly usedBy?: string
}

export function pathsOf(project: Project): Paths {
  refuseUnlessFit('paths', { project }, { project: needed(PROJECT) })
  const graphOf = async (plan: string): Promise<ProjectGraph> => {
    const where = await project.locate(plan, 'plan')
    if (where?.kind !== 'plan') throw new NotFound('plan', plan)
    return project.context(where.graph)
  }
  return {
    getContext: async (id) => (await project.context(id)).document('context', id),
    async postContext(context, options) {
      const graph = await project.create(context, options)
      return graph.document('context', graph.id)
    },
    getPlan: async (id) => (await graphOf(id)).document('plan', id),
    async postPlan(plan, options) {
      const changes = takeApart('plan', plan)
      const { plan_id, context_id } = plan as Plan
      const graph = await project.context(context_id)
      await insist(graph, changes, options)
      return graph.document('plan', plan_id)
    },
    async patchPlanStatus(id, status, patch) {
      checkPatch(patch)
      const { proposing, usedBy, ...options } = patch
      const graph = await graphOf(id)
      const asked = { actor: options.actor, proposing, usedBy }
      await insist(graph, () => movesTo(graph, id, status, asked), { ...options, reads: [['plan', id]] })
      return graph.document('plan', id)
    },
    async deletePlan(id, options) {
      const graph = await graphOf(id)
      await insist(graph, () => removalOf(graph, id), { ...options, reads: [['plan', id]] })
    },
  }
}

const PROJECT = having('a project, as openProject makes them', 'locate', 'context', 'create')

function checkPatch(patch: PatchOptions): void {
  checkOptions(patch)
  refuseUnlessFit('plan', patch, { proposing: object, usedBy: text, '*': anything })
}

interface Asked {
  readonly actor: string
  readonly proposing: Partial<Proposing> | undefined
  readonly usedBy: string | undefined
}

function movesTo(graph: ProjectGraph, id: string, status: PlanStatus, { actor, proposing, usedBy }: Asked): Changes {
  switch (status) {
    case 'draft':
    case 'approved':
      return [move('plan', id, status)]
    case 'proposed':
      return proposePlan(graph, id, { requested_by_role: actor, ...proposing })
    case 'in_progress':
      return startPlan(graph, id, usedBy ?? actor)
    case 'completed':
    case 'failed':
    case 'cancelled':
      return endPlan(graph, id, status)
    default:
      status satisfies never
      throw new InvalidInput('plan', [problem('status', 'enum', 'is not a status of a plan', status)])
  }
}

function removalOf(graph: ProjectGraph, id: string): Changes {
  if (!graph.get('plan', id)) throw new NotFound('plan', id)
  const steps = children(graph.state, 'plan', id).flatMap((step) => removeStep(graph, step.id))
  return [{ kind: 'node_delete', node: 'plan', id }, ...steps]
}
