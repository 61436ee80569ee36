import { trackFiles } from '../../src/drift/track.ts'
import { digestOf } from '../../src/protocol/json.ts'
import { graphOf, put } from '../drift/given.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { bare, type Doors, door, elsewhere, given, making, name, options, saying } from './doors.ts'

const root = tempFolder()
const graph = await graphOf()
put(root, { 'a.txt': 'a' })
const tracker = await trackFiles(graph, { root })
put(root, { 'a.txt': 'b' })
const { findings } = await tracker.scan()
await tracker.close()

const [digest, reader, paths] = [given(digestOf('a')), given({}, 'object'), given(['a.txt'], 'list')]
const wrote = { path: 'c.txt', digest: digestOf('c'), size: 1, mode: 0o644 }
const facts = {
  restoration: { changes: [], conflicts: [] },
  actions: [],
  believed: () => undefined,
  observed: new Map(),
}
const side = given({ path: 'a', text: 'b' }, 'nothing')

const TRACKER: Doors = {
  // First: it is planned at the revision that the graph now has.
  takeBack: door(saying({ files: [], changes: [], revision: graph.revision, run: 'r', actor: 'a', reason: 'b' })),
  scan: door(options()),
  look: door(paths),
  findings: bare,
  diff: door(given(findings[0])),
  reconcile: door(given('all', 'list'), given('ask'), options()),
  mayWrite: door(name('a.txt')),
  staleCheck: door(name('a.txt'), { ...digest, legal: ['nothing'] }, reader),
  sawRead: door(name('a.txt'), digest, reader),
  writing: making({ wrote: door(given([wrote], 'list'), given({ action_id: 'a' })), release: bare }, paths),
  observed: door(paths),
  idle: bare,
  close: bare,
}

export const ANY_TRACKER = elsewhere(TRACKER)

export const drift: Doors = {
  compare: door(given(new Map()), given(new Map())),
  compensation: door(
    given([], 'list'),
    given(() => false),
  ),
  fileId: door(name('a.txt')),
  isEmpty: door(given({ files: [], changes: [], effects: [] })),
  mergeText: door(name('a'), name('b'), name('c')),
  rollbackPlan: door(saying(facts)),
  trackFiles: making(TRACKER, given(graph), saying({ root })),
  unifiedDiff: door(side, side),
  watchInvariants: making({ breaches: bare, check: bare, close: bare }, given(graph), options()),
}
