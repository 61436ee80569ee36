// Somebody else's runtime, scored by golden flows: a notebook that keeps documents, knows shapes and lifecycles, and nothing else yet.
// npx tsx examples/golden-for-your-runtime.ts
import { argv } from 'node:process'
import { fileURLToPath } from 'node:url'
import {
  type DocumentKind,
  type Driver,
  type FlowChange,
  type FlowResult,
  type Outcome,
  runGolden,
  type Session,
} from '../src/golden/golden.ts'
import {
  type Json,
  type JsonObject,
  type LifecycleKind,
  mayMove,
  moveRule,
  problems,
  systemClock,
} from '../src/protocol/protocol.ts'

/** The runtime: documents by kind, and what it tells. */
function notebook() {
  const kept = new Map<DocumentKind, JsonObject[]>()
  const told: JsonObject[] = []
  const pages = (kind: DocumentKind) => kept.get(kind) ?? []
  const tell = (event_type: string, id: string) =>
    told.push({
      event_id: systemClock.uuid(),
      timestamp: new Date(systemClock.now()).toISOString(),
      event_type,
      event_family: 'graph_update',
      graph_id: id,
      update_kind: 'node_update',
    })
  return {
    told,
    pages,
    write(kind: DocumentKind, document: JsonObject) {
      kept.set(kind, [...pages(kind), document])
      tell(`${kind}_created`, String(document[`${kind}_id`]))
    },
    /** A document, or a step inside of its plan. */
    find(kind: string, id: string): JsonObject | undefined {
      const steps = () => pages('plan').flatMap(({ steps = [] }) => steps as readonly JsonObject[])
      return (kind === 'step' ? steps() : pages(kind as DocumentKind)).find((document) => document[`${kind}_id`] === id)
    },
    change(document: JsonObject, set: JsonObject, id: string) {
      Object.assign(document, set)
      tell('document_changed', id)
    },
  }
}

const YES: Outcome = { ok: true }
const no = (rule: string, message: string): Outcome => ({ ok: false, rules: [rule], message })

/** The driver: what golden flows ask, in the words of the notebook. All that it does not offer is skipped by name. */
const driver: Driver = {
  name: 'notebook',
  capabilities: ['conformance'],
  async open(): Promise<Session> {
    const book = notebook()

    function load(documents: readonly (readonly [DocumentKind, Json])[]): Outcome {
      for (const [kind, document] of documents) {
        const [problem] = problems(kind, document)
        if (problem) return no('schema', `${kind}: ${problem.path} ${problem.message}`)
      }
      for (const [kind, document] of documents) book.write(kind, structuredClone(document) as JsonObject)
      return YES
    }

    function change(asked: FlowChange): Outcome {
      if ('add' in asked) return load([[asked.add.kind as DocumentKind, asked.add.document]])
      if (!('move' in asked) && !('edit' in asked)) return no('unsupported', 'the notebook cannot do that')
      const { kind, id } = 'move' in asked ? asked.move : asked.edit
      const document = book.find(kind, id)
      if (!document) return no('node.exists', `there is no ${kind} ${id}`)
      if ('move' in asked) {
        const [from, to] = [String(document.status), asked.move.to]
        if (!mayMove(kind as LifecycleKind, from as never, to as never))
          return no(moveRule(kind as LifecycleKind, from as never, to as never), `${kind} is ${from}`)
      }
      book.change(document, 'move' in asked ? { status: asked.move.to } : asked.edit.set, id)
      return YES
    }

    return {
      load: async (documents) => load(documents),
      change: async (asked) => change(asked),
      documents: async (kind) => structuredClone(book.pages(kind)),
      events: async () => book.told,
      verify: async () => [],
      close: async () => undefined,
    }
  },
}

/** Which `mplp golden --driver` looks for. */
export default driver

if (argv[1] === fileURLToPath(import.meta.url)) {
  const { results, totals } = await runGolden({ driver, backends: ['notebook'] })
  const { passed, failed, skipped } = totals.notebook!
  console.log(`${driver.name}: ${passed} passed, ${failed} failed, ${skipped} skipped`)
  for (const [area, those] of byArea(results)) {
    const first = those.find(({ status }) => status === 'failed')
    console.log(`${area}: ${those.filter(({ status }) => status === 'passed').length} of ${those.length}`)
    if (first) console.log(`  ${first.reason}`)
  }
}

function byArea(results: readonly FlowResult[]): ReadonlyMap<string, readonly FlowResult[]> {
  const areas = new Map<string, FlowResult[]>()
  for (const result of results) {
    if (result.status === 'skipped') continue
    const area = result.flow.split('/')[0]!
    areas.set(area, [...(areas.get(area) ?? []), result])
  }
  return areas
}
