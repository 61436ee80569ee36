import type { ProjectGraph } from './graph.ts'

/** So many contexts stay in memory when nobody holds them, as long as they do not have more nodes than this among them; at some 2 KB each. */
const KEEP = 64
const KEEP_NODES = 20_000

/**
 * Where all contexts are looked at, there may be thousands: those that come together share their round trips and syncs. Few enough that of contexts
 * that are free several processes get their share.
 */
export const CONTEXTS_AT_ONCE = 8

export interface OpenGraphs {
  /** The graph that is open under this id, or a newly opened one; `open` says how if not as usual. */
  get(id: string, open?: Open): Promise<ProjectGraph>
  forget(id: string): void
}

type Open = (id: string) => ProjectGraph | Promise<ProjectGraph>

/** The last ones used stay in memory, the others as long as somebody holds them: there is never a second beside one that is in use. */
export function openGraphs(usual: Open): OpenGraphs {
  const opening = new Map<string, Promise<ProjectGraph>>()
  const known = new Map<string, WeakRef<ProjectGraph>>()
  const recent = new Map<string, ProjectGraph>()
  const gone = new FinalizationRegistry<string>((id) => {
    if (known.get(id)?.deref() === undefined) known.delete(id)
  })

  function use(id: string, graph: ProjectGraph): void {
    recent.delete(id)
    recent.set(id, graph)
    let nodes = 0
    for (const { state } of recent.values()) nodes += state.size
    for (const [oldest, { state }] of recent) {
      if (oldest === id || (recent.size <= KEEP && nodes <= KEEP_NODES)) return
      recent.delete(oldest)
      nodes -= state.size
    }
  }

  async function first(id: string, open: Open): Promise<ProjectGraph> {
    try {
      const graph = await open(id)
      known.set(id, new WeakRef(graph))
      gone.register(graph, id)
      use(id, graph)
      return graph
    } finally {
      opening.delete(id) // a failed opening is tried again by the next caller
    }
  }

  return {
    async get(id, open = usual) {
      const graph = known.get(id)?.deref()
      if (graph) {
        use(id, graph)
        return graph
      }
      const begun = opening.get(id) ?? first(id, open)
      opening.set(id, begun)
      return begun
    },
    forget(id) {
      known.delete(id)
      recent.delete(id)
    },
  }
}
