import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { type FreshStore, inMemory, ownDriver, runGolden } from '../../src/golden/golden.ts'
import { schemas } from '../../src/protocol/generated/schemas.ts'
import { KINDS } from '../../src/psg/kinds.ts'
import { eventsIn } from '../../src/psg/told.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { ROOT } from './imports.ts'

/** By heading of docs/events.md: the types that its tables name. */
const documented = typesByHeading(readFileSync(join(ROOT, 'docs/events.md'), 'utf8'))
const under = (heading: string) => [...(documented.get(heading) ?? [])].sort()

describe('docs/events.md', () => {
  it('has every family of the protocol', () => {
    const families = wordsOf('event-core', 'event_family')
    const silent = documented.get('Families that only you emit')!
    expect(families.filter((family) => !documented.has(family) && !silent.has(family))).toEqual([])
  })

  it('has a graph_update type for each kind of node', () => {
    const named = Object.entries(KINDS).flatMap(([kind, { added, updated }]) => [added, updated, `${kind}_removed`])
    const others = ['dag_edge_added', 'dag_edge_removed', 'graph_changed']
    expect(under('graph_update')).toEqual([...new Set([...named, ...others])].sort())
  })

  it('has the types of both profiles', () => {
    expect(under('The single-agent profile')).toEqual([...wordsOf('sa-event', 'event_type')].sort())
    expect(under('The multi-agent profile')).toEqual([...wordsOf('map-event', 'event_type')].sort())
  })

  it('names only types that stand in the source', () => {
    const source = EMITTERS.map((path) => readFileSync(join(ROOT, 'src', path), 'utf8')).join('\n')
    const families = [
      'pipeline_stage',
      'runtime_execution',
      'cost_budget',
      'compensation_plan',
      'external_integration',
      'intent',
    ]
    const invented = families.flatMap(under).filter((type) => !source.includes(`'${type}'`))
    expect(invented).toEqual([])
  })

  describe('held against what golden flows emit', () => {
    const emitted = new Map<string, Set<string>>()

    beforeAll(async () => {
      const open = async (): Promise<FreshStore> => {
        const store = memoryBackend()
        const dispose = async () => {
          for await (const entry of store.feed()) for (const { event } of eventsIn(entry)) note(emitted, event)
          await store.close()
        }
        return { ...inMemory(store), dispose }
      }
      await runGolden({ flows: join(ROOT, 'golden-flows'), driver: ownDriver({ open }), backends: ['memory'] })
    }, 120_000)

    it('knows all of them', () => {
      expect(emitted.get('pipeline_stage')?.size).toBeGreaterThan(3)
      const known = new Set([...documented.values()].flatMap((types) => [...types]))
      const unknown = [...emitted].flatMap(([family, types]) =>
        [...types].filter((type) => !(documented.get(family) ?? known).has(type)).map((type) => `${family} ${type}`),
      )
      expect(unknown).toEqual([])
    })
  })
})

/** What the protocol's schema allows in a field. */
const wordsOf = (schema: 'event-core' | 'sa-event' | 'map-event', field: string): readonly string[] =>
  (schemas[schema].properties?.[field]?.enum ?? []) as readonly string[]

/** Where types of events are chosen. */
const EMITTERS = [
  'ael/events.ts',
  'drift/describe.ts',
  'orchestrator/modules/collab.ts',
  'orchestrator/modules/core.ts',
  'orchestrator/modules/dialog.ts',
  'orchestrator/rollback-trace.ts',
  'orchestrator/ingest.ts',
  'orchestrator/undo.ts',
  'psg/events.ts',
  'psg/told.ts',
]

function note(emitted: Map<string, Set<string>>, event: { event_type: string; event_family?: unknown }): void {
  const family = typeof event.event_family === 'string' ? event.event_family : 'profile'
  const types = emitted.get(family) ?? new Set()
  emitted.set(family, types.add(event.event_type))
}

/** Names in backticks of the tables' cells, without those of a last column of prose; and of the list of silent families. */
function typesByHeading(text: string): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>()
  let heading = ''
  for (const line of text.split('\n')) {
    heading = /^## (.*)$/.exec(line)?.[1] ?? heading
    const types = found.get(heading) ?? new Set()
    found.set(heading, types)
    const cells = line.startsWith('| ') ? line.split('|').slice(1, -1) : []
    const names = cells.length === 2 ? cells.slice(0, 1) : cells
    const isList = heading === 'Families that only you emit' && line.startsWith('`')
    for (const cell of isList ? [line] : names) for (const [, type] of cell.matchAll(/`(\w+)`/g)) types.add(type!)
  }
  return found
}
