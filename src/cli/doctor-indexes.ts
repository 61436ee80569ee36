import { endOf, INDEX, idIn, type Whereabouts } from '../psg/indexes.ts'
import type { Project } from '../psg/project.ts'
import type { Check } from './doctor.ts'

/** Runs are found by their ids, which begin with the time: where an older version left runs out of a list, these are the first. */
const SOME = 20

/** Are the oldest runs that have ended where `list --ended` looks for them? All of them are for `store verify` to look at: this costs the same in every store. */
export async function checkIndexes(project: Project): Promise<Check> {
  const rows: string[] = []
  for await (const [key, where] of project.store.scan(INDEX.id('run', ''), { limit: SOME })) {
    const row = await endedRow(project, idIn(key), where as Whereabouts)
    if (row !== undefined) rows.push(row)
  }
  const unlisted = rows.length - (await project.store.getMany(rows)).size
  if (unlisted === 0) return { check: 'indexes', verdict: 'ok', says: 'the oldest runs are in their lists' }
  return {
    check: 'indexes',
    verdict: 'warning',
    says: `${unlisted} of the ${rows.length} oldest runs that have ended are not listed as such: an older version has written them`,
    remedy: 'mplp store reindex',
  }
}

async function endedRow(project: Project, run: string, { graph, group }: Whereabouts): Promise<string | undefined> {
  const context = await project.context(graph)
  await context.load(group)
  return endOf(context.get('run', run))
}
