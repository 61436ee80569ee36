import type { Change } from '../../src/psg/change.ts'
import type { ProjectGraph } from '../../src/psg/graph.ts'
import type { Backend } from '../../src/vsl/backend.ts'

/** A store as a slow process sees it: whatever it wants to commit to a graph, somebody else commits there first, so many times in a row. */
export function overtaken(store: Backend, rival: ProjectGraph, times = 7): Backend {
  let lost = 0
  return {
    ...store,
    async commit(write) {
      if (write.stream === rival.id) {
        if (lost++ < times) await rival.commit([noted(rival, lost)], { actor: 'rival', reason: 'never rests' })
        else lost = 0
      }
      return store.commit(write)
    },
  }
}

const noted = ({ id }: ProjectGraph, time: number): Change => ({
  kind: 'node_update',
  node: 'context',
  id,
  set: { summary: `the ${time}th note` },
})
