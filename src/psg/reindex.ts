import { inParts } from '../protocol/each.ts'
import { RevisionConflict } from '../protocol/errors.ts'
import type { Backend } from '../vsl/backend.ts'
import type { Finding } from './finding.ts'
import type { IndexRows } from './index-rows.ts'
import { foundIn } from './verify.ts'
import { findingOf } from './verify-indexes.ts'

const MOST_ATTEMPTS = 5
const AT_ONCE = 1000

interface Mended {
  readonly mended: readonly Finding[]
  readonly findings: readonly Finding[]
}

/**
 * Makes the indexes of a graph tell what its values say, by writes that land only while nobody else commits to the graph. Throws RevisionConflict when
 * others kept writing.
 */
export async function reindexGraph(store: Backend, graph: string, rows: IndexRows): Promise<Mended> {
  for (let attempt = 1; ; attempt++) {
    const { revision, findings, faults } = await foundIn(store, graph, rows)
    const known = faults.flatMap(({ mend }) => (mend ? [mend] : []))
    if (findings.length > 0 || known.length === 0)
      return { mended: [], findings: [...findings, ...faults.filter(({ isOld }) => !isOld).map(findingOf)] }
    try {
      for (const some of inParts(known, AT_ONCE)) {
        const puts = some.flatMap(([key, row]) => (row ? [[key, row] as const] : []))
        const deletes = some.flatMap(([key, row]) => (row ? [] : [key]))
        await store.commit({ stream: graph, expected: revision, inserts: [], puts, deletes })
      }
      const [mended, left] = [faults.filter(({ mend }) => mend), faults.filter(({ mend }) => !mend)]
      return { mended: mended.map(findingOf), findings: left.map(findingOf) }
    } catch (error) {
      if (!(error instanceof RevisionConflict) || attempt === MOST_ATTEMPTS) throw error
    }
  }
}
