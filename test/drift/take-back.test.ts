import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { fileId } from '../../src/drift/compare.ts'
import type { FileReturn } from '../../src/drift/rollback.ts'
import { digestOf } from '../../src/protocol/json.ts'
import { type Given, given, put } from './given.ts'

const takeBack = ({ tracker, graph }: Given, files: readonly FileReturn[]) =>
  tracker.takeBack({ files, changes: [], revision: graph.revision, run: 'run', actor: 'test', reason: 'because' })

it('puts no diffs on record for a way back, of which there may be thousands in one entry', async () => {
  const it = await given({ a: 'something to be shown' })
  const from = it.graph.revision
  const now = it.graph.get('file', fileId('a'))!.data
  expect(await takeBack(it, [{ path: 'a', now, before: null }])).toEqual([{ path: 'a', result: 'done' }])
  const entries: unknown[] = []
  for await (const entry of it.graph.store.read(it.graph.id, { after: from })) entries.push(entry)
  expect(entries).toHaveLength(2) // what is to be done, and that it is
  expect(JSON.stringify(entries)).not.toContain('something to be shown')
  await it.tracker.close()
})

it('asks about what a way back could not do, and shows it', async () => {
  const it = await given({ a: 'now' })
  const now = it.graph.get('file', fileId('a'))!.data
  const before = { ...now, digest: digestOf('lost'), kept: true }
  expect(await takeBack(it, [{ path: 'a', now, before }])).toEqual([{ path: 'a', result: 'content_not_kept' }])
  expect(it.tracker.findings()).toMatchObject([{ path: 'a', what: 'modified', confirm_id: expect.any(String) }])
  await it.tracker.close()
})

it('leaves what is not as it was when the way back was planned, in the graph too', async () => {
  const it = await given({ a: 'now' })
  const now = it.graph.get('file', fileId('a'))!.data
  put(it.root, { a: 'theirs' })
  expect(await takeBack(it, [{ path: 'a', now, before: null }])).toEqual([{ path: 'a', result: 'overtaken' }])
  expect([readFileSync(join(it.root, 'a'), 'utf8'), it.graph.get('file', fileId('a'))?.data]).toEqual(['theirs', now])
  expect(it.tracker.findings()).toMatchObject([{ path: 'a', what: 'modified' }])
  await it.tracker.close()
})
