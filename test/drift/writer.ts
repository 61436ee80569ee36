/** Settles every finding of a folder, and dies in the middle: `writer.ts <store> <graph> <root> <strategy> <when>`. */
import type { Strategy } from '../../src/drift/policy.ts'
import { trackFiles } from '../../src/drift/track.ts'
import { openProject } from '../../src/psg/project.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { type Death, deadly } from './deadly.ts'

const [path, context, root, strategy, when] = process.argv.slice(2) as [string, string, string, Strategy, Death]
const store = await sqliteBackend({ path })
const { backend, arm } = deadly(store, when)
const project = await openProject(backend)
const tracker = await trackFiles(await project.context(context), { root })
console.log(`found ${tracker.findings().length}`)
arm()
await tracker.reconcile('all', strategy)
console.log('survived')
await tracker.close()
await store.close()
