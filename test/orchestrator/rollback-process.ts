/** Takes a run back, and dies in the middle: `rollback-process.ts <store> <graph> <root> <run> <when>`. */
import { actionLayer } from '../../src/ael/ael.ts'
import { trackFiles } from '../../src/drift/track.ts'
import { rollback } from '../../src/orchestrator/rollback.ts'
import { openProject } from '../../src/psg/project.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { type Death, deadly } from '../drift/deadly.ts'

const [path, context, root, run, when] = process.argv.slice(2) as [string, string, string, string, Death]
const store = await sqliteBackend({ path })
const { backend, arm } = deadly(store, when)
const project = await openProject(backend)
const graph = await project.context(context)
const tracker = await trackFiles(graph, { root })
arm()
await rollback({ graph, layer: actionLayer({ adapters: [] }), tracker }, run)
console.log('survived')
await tracker.close()
await store.close()
