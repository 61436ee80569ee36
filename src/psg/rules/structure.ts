import type { JsonObject } from '../../protocol/json.ts'
import { PLAN_ENDINGS } from '../../protocol/lifecycle.ts'
import { problems } from '../../protocol/validate.ts'
import type { AnyNode, Kind } from '../change.ts'
import { comesTo, type Delta } from '../delta.ts'
import { KINDS } from '../kinds.ts'
import { eachReference, governanceOf, isKind } from '../node.ts'
import { sameJson } from '../plain.ts'
import type { Proposal } from '../proposal.ts'
import { shapeProblems } from '../shapes.ts'
import { kindsWith, type Rule } from './rule.ts'

/** Shapes, ids, references, and what belongs where. */
export const STRUCTURE: readonly Rule[] = [
  {
    id: 'schema',
    keeps: 'every object fits its shape, the protocol’s or our own; its parts are nodes of their own',
    check({ kind, before, after, statusOnly }, _, report) {
      if (!after || before?.data === after.data) return
      const data = after.data as JsonObject
      const { parts, lifecycle } = KINDS[kind]
      if (statusOnly && lifecycle) return // which has more to say
      for (const { path, message } of misfits(after)) report(path, `${kind} ${after.id}: ${path || 'it'} ${message}`)
      const members = parts && data[parts.list]
      if (members !== undefined && !(Array.isArray(members) && members.length === 0))
        report(
          parts!.list,
          `${kind} ${after.id}: ${parts!.list} must be empty here, each member being a node of its own`,
        )
    },
  },
  {
    id: 'id.fixed',
    keeps: 'a node’s id and what it belongs to never change',
    check({ kind, id, before, after, statusOnly }, _, report) {
      const { idField, refs = [], fixed = [] } = KINDS[kind]
      if (!after || statusOnly || before?.data === after.data) return
      if (idField && field(after, idField) !== id) report(idField, `${kind} ${id} must keep its id in ${idField}`)
      if (!before) return
      const kept = [...refs.filter((ref) => ref.edge !== 'DEPENDS_ON').map((ref) => ref.field), ...fixed]
      for (const name of kept)
        if (!sameJson(field(before, name), field(after, name))) report(name, `${kind} ${id} must keep its ${name}`)
    },
  },
  {
    id: 'reference.resolves',
    keeps: 'whatever is referred to is there',
    check({ kind, id, before, after, statusOnly }, proposal, report) {
      if (!after || statusOnly) return
      const confirm = governingConfirm(after)
      if (!after.imported && confirm !== governingConfirm(before) && confirm !== undefined)
        if (!proposal.after('confirm', confirm))
          report('governance.lastConfirmRef.id', `${kind} ${id} refers to confirm ${confirm}, which is not there`)
      if (before && kind !== 'step') return // other references are fixed
      eachReference(after, (ref, toKind, to, at) => {
        if (proposal.after(toKind, to) || ref.soft?.(after)) return
        const path = at < 0 ? ref.field : `${ref.field}[${at}]`
        report(path, `${kind} ${id} refers to ${toKind} ${to || '(none)'}, which is not there`)
      })
    },
  },
  {
    id: 'reference.role',
    keeps: 'in strict mode a role is known to the project, by its id or name',
    kinds: kindsWith(({ role }) => role),
    check({ kind, id, before, after, statusOnly }, { footing: { knowsRole } }, report) {
      if (!knowsRole || !after || statusOnly || after.imported) return
      const name = KINDS[kind].role!
      const role = field(after, name)
      if (typeof role !== 'string' || role === '' || (before && field(before, name) === role)) return
      if (!knowsRole(role)) report(name, `${kind} ${id} names role ${role}, which the project does not know`)
    },
  },
  {
    id: 'dependency.same_plan',
    keeps: 'a step waits only for steps of its own plan',
    kinds: ['step'],
    check({ id, after, statusOnly }, proposal, report) {
      if (!isKind(after, 'step') || statusOnly) return
      for (const [i, dependency] of (after.data.dependencies ?? []).entries()) {
        const other = proposal.after('step', dependency)
        if (other && other.owner !== after.owner)
          report(`dependencies[${i}]`, `step ${id} depends on step ${dependency} of another plan`)
      }
    },
  },
  {
    id: 'plan.acyclic',
    keeps: 'no step waits for itself, however far round',
    kinds: ['step'],
    check({ id, after, statusOnly }, proposal, report) {
      if (!after || statusOnly) return
      const cycle = proposal.order.cycles.get(id)
      if (cycle) report('dependencies', `steps wait for each other: ${cycleText(cycle)}`)
    },
  },
  {
    id: 'plan.has_steps',
    keeps: 'a plan has at least one step, a collab session at least one participant',
    kinds: ['plan', 'collab', 'step', 'participant'],
    check({ kind, id, before, after }, proposal, report) {
      const isPart = kind === 'step' || kind === 'participant'
      const owner = isPart ? before?.owner : id
      const ownerKind = kind === 'plan' || kind === 'step' ? 'plan' : 'collab'
      if (owner === undefined || (isPart ? after : before || !after) || !proposal.after(ownerKind, owner)) return
      const { list, kind: part } = KINDS[ownerKind].parts!
      if (!hasParts(ownerKind, owner, part, proposal))
        report(isPart ? '' : list, `${ownerKind} ${owner} has no ${part}`)
    },
  },
  {
    id: 'trace.root_span',
    keeps: 'a trace’s root span is a span of this trace, in its context',
    kinds: ['trace'],
    check({ id, before, after }, _, report) {
      if (!isKind(after, 'trace') || after.imported || before?.data === after.data) return
      const { root_span, context_id } = after.data
      if (root_span?.trace_id !== id)
        report('root_span.trace_id', `the root span of trace ${id} belongs to another trace`)
      if (root_span?.context_id !== undefined && root_span.context_id !== context_id)
        report('root_span.context_id', `the root span of trace ${id} belongs to another context`)
    },
  },
  {
    id: 'segment.same_trace',
    keeps: 'a segment’s parent and its end are of its own trace',
    kinds: ['segment', 'segment_end'],
    check({ kind, id, before, after }, proposal, report) {
      if (before || !after) return
      const name = kind === 'segment' ? 'parent_segment_id' : 'segment_id'
      const other = proposal.after('segment', String(field(after, name)))
      if (other && other.owner !== after.owner) report(name, `${kind} ${id} and segment ${other.id} are of two traces`)
    },
  },
  {
    id: 'graph.place',
    keeps: 'roles and core live in the project’s graph, everything else in its context’s',
    check({ kind, id, before, after }, proposal, report) {
      if (before || !after) return
      const { graph, project_id } = proposal.footing
      const elsewhere = project_id === undefined ? proposal.after('context', graph) !== undefined : graph !== project_id
      if (KINDS[kind].project && elsewhere) report('', `${kind} ${id} belongs into the project’s graph`)
      if (kind === 'context' && id !== graph) report('context_id', `context ${id} is not the context of graph ${graph}`)
    },
  },
  {
    id: 'module.area',
    keeps: 'a module writes its own areas only; a question about a plan is withdrawn with it, whoever ends it',
    check(delta, proposal, report) {
      const { kind, id } = delta
      const { module } = proposal.options
      if (module === undefined || KINDS[kind].module === module || isWithdrawnWithPlan(delta, proposal)) return
      report('', `module ${module} may not write ${kind} ${id}: that is ${KINDS[kind].module}’s`)
    },
  },
]

type SchemaName = Parameters<typeof problems>[0]

const STAND_INS: { readonly [K in Kind]?: JsonObject } = {
  plan: { steps: [{ step_id: '00000000-0000-4000-8000-000000000000', description: '-', status: 'pending' }] },
  collab: { participants: [{ participant_id: '-', kind: 'agent' }] },
}
/** Parts are nodes of their own, so a head is checked with one part standing in for all. */
const withStandIns = (node: AnyNode): JsonObject => {
  const standIn = STAND_INS[node.kind]
  return standIn ? { ...(node.data as JsonObject), ...standIn } : (node.data as JsonObject)
}

/** What keeps a node from fitting its shape. */
export function misfits(node: AnyNode): readonly { readonly path: string; readonly message: string }[] {
  const { schema } = KINDS[node.kind]
  return schema ? problems(schema as SchemaName, withStandIns(node)) : shapeProblems(node.kind, node.data as JsonObject)
}

const field = (node: AnyNode, name: string) => (node.data as JsonObject)[name]

const governingConfirm = (node: AnyNode | undefined) => governanceOf(node?.data)?.lastConfirmRef?.id

function isWithdrawnWithPlan({ after, statusOnly }: Delta, proposal: Proposal): boolean {
  if (!statusOnly || !isKind(after, 'confirm') || after.data.status !== 'cancelled') return false
  const { target_type, target_id } = after.data
  const plan = target_type === 'plan' ? proposal.delta('plan', target_id) : undefined
  return plan !== undefined && PLAN_ENDINGS.some((end) => comesTo(plan, end))
}

function hasParts(kind: 'plan' | 'collab', id: string, part: Kind, proposal: Proposal): boolean {
  if (kind === 'plan') return Object.values(proposal.tallyAfter(id)).some((steps) => steps > 0)
  if (proposal.partsTouched(id).some((delta) => delta.kind === part && delta.after)) return true
  for (const node of proposal.state.targets(kind, id, 'CONTAINS')) if (proposal.after(node.kind, node.id)) return true
  return false
}

const cycleText = (cycle: readonly string[]): string => {
  const round = [...cycle, cycle[0]]
  return cycle.length <= 7 ? round.join(' -> ') : `${round.slice(0, 6).join(' -> ')} -> … (${cycle.length} steps)`
}
