import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { fileId } from '../../src/drift/compare.ts'
import { trackFiles } from '../../src/drift/track.ts'
import { openProject } from '../../src/psg/project.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { child } from '../support/child.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { BY, graphOf, put } from './given.ts'
import { differences, told } from './simulator.ts'

const WRITER = new URL('writer.ts', import.meta.url)
const COUNT = 40
const name = (i: number) => `d${i % 4}/f${i}.txt`
const between = Array.from({ length: 2_000 }, (_, i) => `line ${i}\n`).join('')
const text = (i: number, first: string, last: string) => `${first} ${i}\n${between}${last} ${i}\n`

/** A tracked folder in which every file was changed on the disk and, at its other end, in the graph; every seventh was deleted. */
async function torn() {
  const [root, path] = [tempFolder(), join(tempFolder(), 'state.db')]
  const files = (first: string, last: string) =>
    Object.fromEntries(Array.from({ length: COUNT }, (_, i) => [name(i), text(i, first, last)]))
  put(root, files('first', 'last'))
  const store = await sqliteBackend({ path })
  const graph = await graphOf(store)
  const tracker = await trackFiles(graph, { root })
  for (let i = 0; i < COUNT; i++) {
    const content = Buffer.from(text(i, 'first', 'graph'))
    const digest = await store.putBlob(content)
    await graph.commit(
      [{ kind: 'node_update', node: 'file', id: fileId(name(i)), set: { digest, size: content.length } }],
      BY,
    )
  }
  await tracker.close()
  await store.close()
  put(root, files('disk', 'last'))
  for (let i = 0; i < COUNT; i += 7) rmSync(join(root, name(i)))
  return { root, path, graph: graph.id }
}

const whole = (strategy: 'graph' | 'merge') => (i: number, content: string) =>
  content === text(i, 'disk', 'last') || content === text(i, strategy === 'graph' ? 'first' : 'disk', 'graph')

describe.each(['graph', 'merge'] as const)('a process that is killed while it settles by %s', (strategy) => {
  it.each(['begin', '1', '9', '25', 'end'] as const)(
    'leaves no file half written, and the next one finishes it (killed at: %s)',
    async (at) => {
      const { root, path, graph } = await torn()
      const writer = child(WRITER, [path, graph, root, strategy, at])
      expect(await writer.line(/found|survived/)).toBe(`found ${COUNT}`)
      expect(await writer.exited).toBe('SIGKILL')

      const isWhole = whole(strategy)
      for (let i = 0; i < COUNT; i++) {
        const there = readdirSync(join(root, `d${i % 4}`)).includes(`f${i}.txt`)
        if (there) expect(isWhole(i, readFileSync(join(root, name(i)), 'utf8'))).toBe(true)
      }

      const store = await sqliteBackend({ path })
      const project = await openProject(store)
      const reopened = await project.context(graph)
      const tracker = await trackFiles(reopened, { root })
      const { findings } = await tracker.scan()
      expect(told(findings)).toEqual(differences(reopened, root))
      const conflicts =
        strategy === 'graph' ? [] : Array.from({ length: COUNT }, (_, i) => i).filter((i) => i % 7 === 0)
      expect(findings.map(({ path: at }) => at).sort()).toEqual(conflicts.map(name).sort())
      for (let i = 0; i < COUNT; i++)
        if (!conflicts.includes(i))
          expect(readFileSync(join(root, name(i)), 'utf8')).toBe(
            text(i, strategy === 'graph' ? 'first' : 'disk', 'graph'),
          )
      expect(readdirSync(root, { recursive: true }).filter((entry) => String(entry).includes('.tmp'))).toEqual([])
      await tracker.close()
      expect(await reopened.verify()).toEqual([])
      await store.close()
    },
  )
})
