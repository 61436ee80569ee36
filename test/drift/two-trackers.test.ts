import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { fileId } from '../../src/drift/compare.ts'
import { disk } from '../../src/drift/root.ts'
import { digestOf } from '../../src/protocol/json.ts'
import { openProject } from '../../src/psg/project.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { BY, type Given, given, graphOf, put, tracked } from './given.ts'

const told = ({ tracker }: Given) => tracker.findings().map(({ what, path }) => `${what} ${path}`)
async function closed(...both: readonly Given[]): Promise<void> {
  for (const { tracker } of both) await tracker.close()
  expect(both.flatMap(({ errors }) => errors)).toEqual([])
}

describe('two processes that track one folder', () => {
  it('leave on record what the other has found, and its question', async () => {
    const one = await given({ a: '1', b: '1' })
    const other = await one.beside()
    put(one.root, { a: '2' })
    const [found] = await one.tracker.look(['a'])
    await other.graph.refresh()
    await other.tracker.look(['b'])
    expect(told(other)).toEqual(['modified a'])
    expect((await other.graph.find('confirm', found!.confirm_id!))?.data.status).toBe('pending')
    await closed(one, other)
  })

  it('do not take what they once saw for what lies there since the other settled it', async () => {
    const one = await given({ a: '1', b: '1' })
    const other = await one.beside()
    put(one.root, { a: '2' })
    await one.tracker.look(['a'])
    await other.graph.refresh()
    await other.tracker.look(['a'])
    await one.tracker.reconcile(['a'], 'graph')
    await other.graph.refresh()
    expect(await other.tracker.look(['b'])).toEqual([])
    expect([told(one), await other.text('a')]).toEqual([[], '1'])
    await closed(one, other)
  })

  it('put what both find on record once, with one question', async () => {
    const one = await given({ a: '1' })
    const { store } = one.graph
    let hold: (() => Promise<void>) | undefined
    const getBlob: typeof store.getBlob = async (digest) => {
      await hold?.()
      return store.getBlob(digest)
    }
    const other = await one.beside({ ...store, getBlob })
    put(one.root, { a: '2' })
    hold = async () => {
      hold = undefined
      await one.tracker.look(['a']) // while the other has it in hand
    }
    expect(await other.tracker.look(['a'])).toEqual([])
    const { nodes } = await other.graph.query({ kind: 'confirm' })
    expect(nodes.map(({ id }) => id)).toEqual(one.tracker.findings().map(({ confirm_id }) => confirm_id))
    expect(told(other)).toEqual(['modified a'])
    await closed(one, other)
  })

  it('settle what is left when the other settles the rest at the same time', async () => {
    const { one, other, meanwhile } = await both({ a: '1', b: '1' }, { a: '2', b: '2' })
    meanwhile(() => one.tracker.reconcile(['a'], 'graph'))
    const settled = await other.tracker.reconcile('all', 'files')
    expect(settled.map(({ finding: { path }, outcome }) => `${outcome} ${path}`)).toEqual(['accepted b'])
    expect([told(other), await other.text('a'), await other.text('b')]).toEqual([[], '1', '2'])
    meanwhile(() => one.tracker.reconcile('all', 'files'))
    put(one.root, { a: '3' })
    await one.tracker.look(['a'])
    await other.graph.refresh()
    expect(await other.tracker.reconcile('all', 'graph')).toEqual([])
    await closed(one, other)
  })

  it.each(['files', 'graph', 'merge'] as const)(
    'leave no question behind that the other asks while it is settled by %s',
    async (strategy) => {
      const { one, other, meanwhile } = await both({ a: '1' }, { a: 'disk' }, { a: 'graph' })
      meanwhile(() => one.tracker.reconcile(['a'], 'merge')) // both have changed the same line: it is asked anew
      await other.tracker.reconcile(['a'], strategy)
      await other.tracker.scan()
      const { nodes } = await other.graph.query({ kind: 'confirm' })
      const waiting = nodes.filter(({ data }) => (data as { status?: string }).status === 'pending').map(({ id }) => id)
      expect(waiting).toEqual(other.tracker.findings().map(({ confirm_id }) => confirm_id))
      await closed(one, other)
    },
  )

  it.each(['graph', 'files', 'merge'] as const)(
    'keep what an action of the one has written while the other was about to say what it had settled by %s',
    async (strategy) => {
      const { one, other, meanwhile } = await both({ a: '1\n2\n3\n' }, { a: 'disk\n2\n3\n' }, { a: '1\n2\ngraph\n' })
      meanwhile(async () => meanwhile(() => acts(one, 'a'))) // the first commit says what is to be done
      const settled = await other.tracker.reconcile(['a'], strategy)
      expect(settled.map(({ outcome }) => outcome)).toEqual(['overtaken'])
      expect([await other.text('a'), readFileSync(join(one.root, 'a'), 'utf8')]).toEqual(['action', 'action'])
      await one.tracker.scan()
      expect([told(one), told(other)]).toEqual([[], []])
      await closed(one, other)
    },
  )

  it('keep it also while the other was about to say that graph and disk have come to agree', async () => {
    const { one, other, meanwhile } = await both({ a: '1' }, {}, { a: '2' })
    put(one.root, { a: '2' })
    meanwhile(() => acts(one, 'a'))
    await other.tracker.look(['a'])
    expect(await other.text('a')).toBe('action')
    await one.tracker.scan()
    expect([told(one), told(other)]).toEqual([[], []])
    await closed(one, other)
  })

  it('keep it also while the other was still taking the folder in for the first time', async () => {
    const root = tempFolder()
    put(root, { a: '1' })
    const graph = await graphOf()
    const { store } = graph
    let one: Given | undefined
    const commit: typeof store.commit = async (write) => {
      if (!one) {
        one = await tracked(graph, root)
        await acts(one, 'a')
      }
      return store.commit(write)
    }
    const project = await openProject({ ...store, commit })
    const other = await tracked(await project.context(graph.id), root)
    expect(await other.text('a')).toBe('action')
    await other.tracker.scan()
    expect([told(one!), told(other)]).toEqual([[], []])
    await closed(one!, other)
  })
})

/** An action writes a file. */
async function acts({ root, tracker }: Given, path: string): Promise<void> {
  const writing = await tracker.writing([path])
  put(root, { [path]: 'action' })
  await writing.wrote([{ path, digest: digestOf('action'), size: 6 }], { action_id: 'an action' })
  writing.release()
  await tracker.idle()
}

/** Both know what has changed on the disk and in the graph. What `meanwhile` is given happens when the other one next commits, before it does. */
async function both(files: Files, onDisk: Files, inGraph: Files = {}) {
  const one = await given(files)
  const { store } = one.graph
  let hold: (() => Promise<unknown>) | undefined
  const commit: typeof store.commit = async (write) => {
    const held = hold
    hold = undefined
    await held?.()
    return store.commit(write)
  }
  const other = await one.beside({ ...store, commit })
  for (const [path, text] of Object.entries(inGraph)) {
    const digest = await store.putBlob(Buffer.from(text))
    const set = { digest, size: text.length }
    await one.graph.commit([{ kind: 'node_update', node: 'file', id: fileId(path), set }], BY)
  }
  put(one.root, onDisk)
  for (const { graph, tracker } of [one, other]) {
    await graph.refresh()
    await tracker.scan()
  }
  return { one, other, meanwhile: (work: () => Promise<unknown>) => (hold = work) }
}
type Files = { readonly [path: string]: string }

it('a finding about what cannot be read any more stays on record, with its question, over a restart', async () => {
  const before = await given({ a: '1' })
  put(before.root, { a: '2' })
  const { findings } = await before.tracker.scan()
  const { open } = disk
  const denied = Object.assign(new Error('permission denied'), { code: 'EACCES' }) // the superuser is never told that
  disk.open = ((...asked: Parameters<typeof open>) =>
    String(asked[0]).endsWith('/a') ? Promise.reject(denied) : open(...asked)) as typeof open
  try {
    const again = await before.again()
    expect(again.tracker.findings()).toEqual(findings)
    await closed(again)
  } finally {
    disk.open = open
  }
})
