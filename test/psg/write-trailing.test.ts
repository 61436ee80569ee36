import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { Refused } from '../../src/protocol/errors.ts'
import { INDEX } from '../../src/psg/indexes.ts'
import { openProject } from '../../src/psg/project.ts'
import { writeTrailing } from '../../src/psg/write-trailing.ts'
import { UNFINISHED } from '../../src/vsl/backend.ts'
import { copyStore } from '../../src/vsl/copy.ts'
import { fileBackend } from '../../src/vsl/file.ts'
import { objectPath } from '../../src/vsl/file-names.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { chainOf, runtimeOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'

it('gives everything in a copy a file of its own, also what only the journal of the source has told', async () => {
  const source = memoryBackend()
  const runtime = await runtimeOf({}, { store: source })
  const run = await runtime.submit(chainOf(3))
  await run.result()
  await runtime.close()
  const mark = INDEX.written(run.context_id)
  expect((await source.getMany([mark])).has(mark)).toBe(true) // or nothing would be shown

  const path = join(tempFolder(), 'copy')
  const copy = await fileBackend({ path })
  await copyStore(source, copy, { verify: true })
  await writeTrailing(copy)
  await copy.close()

  const told = new Set<string>()
  for await (const { body } of source.read(run.context_id))
    for (const { key } of (body as unknown as { changes: { key: string }[] }).changes) told.add(key)
  expect(told.size).toBeGreaterThan(10)
  expect([...told].filter((key) => !existsSync(join(path, 'values', objectPath(key))))).toEqual([])

  const opened = await fileBackend({ path })
  onTestFinished(() => opened.close())
  expect((await opened.getMany([mark])).size).toBe(0)
  const project = await openProject(opened)
  expect((await project.verify()).findings).toEqual([])
  const graph = await project.context(run.context_id)
  expect((await graph.document('plan', run.plan_id)).status).toBe('completed')
})

it('has nothing to write in a store without a project, and refuses a copy that was cut off', async () => {
  const store = memoryBackend()
  await store.set('mine', 1)
  await writeTrailing(store)
  expect((await store.getMany(['project'])).size).toBe(0)
  await store.commit({ stream: 'copy', expected: 0, inserts: [[UNFINISHED, true]], puts: [], deletes: [] })
  await expect(writeTrailing(store)).rejects.toThrow(Refused)
})
