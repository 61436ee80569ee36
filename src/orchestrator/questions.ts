import { allOf } from '../protocol/each.ts'
import { type Fields, refuseUnlessFit, text, wholeFrom } from '../protocol/fields.ts'
import { given } from '../protocol/given.ts'
import type { Digest, JsonObject } from '../protocol/json.ts'
import type { Confirm } from '../protocol/types.ts'
import type { Node } from '../psg/change.ts'
import { agreedTo, gateOf, isAnswerable } from '../psg/confirm.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { INDEX, type Whereabouts } from '../psg/indexes.ts'
import { CONTEXTS_AT_ONCE } from '../psg/open-graphs.ts'
import { caughtUp, type Project } from '../psg/project.ts'

/** Something that a person must decide. */
export interface Question {
  readonly confirm: Confirm
  readonly context_id: string
  readonly plan_id?: string
  /** What the plan is called: a question about a whole plan may give no reason. */
  readonly title?: string
  /** Who may decide; anybody when absent. */
  readonly roles?: readonly string[]
  /** How many different roles must approve. */
  readonly needed: number
  /** Those that have; absent while nobody has. */
  readonly approved_by?: readonly string[]
  readonly shows?: JsonObject
  /** Of what is up for decision: who gives it back with an answer is refused once it is something else. */
  readonly digest?: Digest
  readonly expires_at?: string
}

/** Everything that waits for a person and can still be answered, oldest first; a page of it in the order of ids. Throws InvalidInput for what is no page. */
export async function questionsIn(
  project: Project,
  page: { readonly after?: string; readonly limit?: number } = {},
): Promise<readonly Question[]> {
  refuseUnlessFit('page', page, PAGE)
  const { after, limit = Number.POSITIVE_INFINITY } = page
  const asked: Question[] = []
  for (let from = after; asked.length < limit; ) {
    const { questions, last } = await questionsBehind(project, from, Math.min(limit - asked.length, AT_ONCE))
    asked.push(...questions)
    if (last === undefined) break
    from = last
  }
  if (after !== undefined || page.limit !== undefined) return asked
  return asked.sort((a, b) => (a.confirm.requested_at < b.confirm.requested_at ? -1 : 1))
}

const AT_ONCE = 200
const PAGE: Fields = { after: text, limit: wholeFrom(0) }

/** Those among the next rows of the index that still wait, and the last row. */
async function questionsBehind(project: Project, after: string | undefined, limit: number) {
  const from = { limit, ...(after !== undefined && { after: INDEX.waiting(after) }) }
  const places: (readonly [string, Whereabouts])[] = []
  for await (const [key, where] of project.store.scan(INDEX.waiting(''), from))
    places.push([key.slice(INDEX.waiting('').length), where as Whereabouts])
  const graphs = new Map<string, Promise<ProjectGraph>>() // one context may have them all
  const graphOf = (where: Whereabouts) => {
    const graph = graphs.get(where.graph) ?? caughtUp(project, where)
    graphs.set(where.graph, graph)
    return graph
  }
  const questions = await allOf(places, CONTEXTS_AT_ONCE, async ([id, where]) => {
    const graph = await graphOf(where)
    await graph.load(where.group)
    const confirm = graph.get('confirm', id)
    return confirm && isAnswerable(graph, confirm) ? [questionOf(graph, confirm)] : [] // answered since, or too late for it
  })
  return { questions: questions.flat(), last: places.at(-1)?.[0] }
}

function questionOf(graph: ProjectGraph, confirm: Node<'confirm'>): Question {
  const gate = gateOf(graph, confirm.id)?.data
  const plan = graph.get('plan', confirm.group)
  const approved = [...agreedTo(graph, confirm.id)]
  return {
    confirm: confirm.data,
    context_id: graph.id,
    ...(plan && { plan_id: plan.id, title: plan.data.title }),
    ...given({ roles: gate?.roles }),
    needed: gate?.needed ?? 1,
    ...(approved.length > 0 && { approved_by: approved }),
    ...given({ shows: gate?.shows, digest: gate?.digest, expires_at: gate?.expires_at }),
  }
}
