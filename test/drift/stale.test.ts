import { expect, it, onTestFinished } from 'vitest'
import { trackFiles } from '../../src/drift/track.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { digestOf } from '../../src/protocol/json.ts'
import { openProject } from '../../src/psg/project.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { BY, contextOf, put } from './given.ts'

it('remembers what the last runs have read, and holds those before them to what the graph believes', async () => {
  const root = tempFolder()
  put(root, { 'a.txt': 'a\n' })
  const project = await openProject(memoryBackend())
  const tracker = await trackFiles(await project.create(contextOf(systemClock.uuid()), BY), { root })
  onTestFinished(() => tracker.close())
  const [believed, theirs] = [digestOf('a\n'), digestOf('theirs\n')]
  const run = (n: number) => ({ run: { trace_id: `trace ${n}` } })
  await tracker.sawRead('a.txt', theirs, run(0))
  expect(await tracker.staleCheck('a.txt', theirs, run(0))).toBe(false)
  for (let n = 1; n <= 10_000; n++) await tracker.sawRead('a.txt', believed, run(n))
  expect(await tracker.staleCheck('a.txt', theirs, run(0))).toBe(true)
  expect(await tracker.staleCheck('a.txt', theirs, run(1))).toBe(true)
  expect(await tracker.staleCheck('a.txt', believed, run(10_000))).toBe(false)
})
