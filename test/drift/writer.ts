/** Settles every finding of a folder, and dies in the middle: `writer.ts <store> <graph> <root> <strategy> <at the how-manieth content>`. */
import type { Strategy } from '../../src/drift/policy.ts'
import { trackFiles } from '../../src/drift/track.ts'
import { openProject } from '../../src/psg/project.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'

const [path, context, root, strategy, count] = process.argv.slice(2) as [string, string, string, Strategy, string]
const store = await sqliteBackend({ path })
let [isBegun, left] = [false, Number(count)]
const deadly: Backend = {
  ...store,
  async commit(write) {
    await store.commit(write)
    if (!isArmed || !JSON.stringify(write.entry).includes('"deed"')) return
    isBegun = true
    if (left === 0) process.kill(process.pid, 'SIGKILL')
  },
  async getBlob(digest) {
    if (isBegun && --left === 0) process.kill(process.pid, 'SIGKILL')
    return store.getBlob(digest)
  },
}
let isArmed = false
const project = await openProject(deadly)
const tracker = await trackFiles(await project.context(context), { root })
console.log(`found ${tracker.findings().length}`)
isArmed = true
await tracker.reconcile('all', strategy)
console.log('survived')
await tracker.close()
await store.close()
