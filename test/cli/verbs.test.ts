import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import Database from 'libsql'
import { describe, expect, it } from 'vitest'
import { projectFolder } from '../../src/orchestrator/project-folder.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import type { JsonObject } from '../../src/protocol/json.ts'
import { firstActionOf } from '../../src/psg/first-action.ts'
import { isKind } from '../../src/psg/node.ts'
import { openProject } from '../../src/psg/project.ts'
import { openStore } from '../../src/vsl/vsl.ts'
import { by, planOf, world } from '../psg/given.ts'
import { flowOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { hereJson, mplpHere } from './here.ts'
import { mplp, mplpJson, oneLine } from './mplp.ts'

const PATIENT = { timeout: 120_000 }

const hold = { hold: { binding: { action_type: 'wait', params: { signal: 'go' } } } }

describe('going back', PATIENT, () => {
  it('says what a rollback would do, then does it, and keeps the graph whole', async () => {
    const folder = tempFolder()
    await mplpHere(folder, ['init'])
    const { values } = await hereJson<{ plan_id: string }>(folder, ['run', 'flow.json'])
    const plan = values[0]!.plan_id
    expect(await hereJson(folder, ['rollback', plan, '--dry-run'])).toMatchObject({
      code: 0,
      values: [{ status: 'planned' }],
    })
    const { out } = await mplpHere(folder, ['rollback', plan, '--dry-run'])
    expect(out).toMatch(/^effect {2}Write a greeting {2}file_operation \{"operation":"delete","path":"hello.txt"/m)
    expect(existsSync(join(folder, 'hello.txt'))).toBe(true)
    expect(await hereJson(folder, ['rollback', plan])).toMatchObject({
      code: 0,
      values: [{ status: 'done', left: [] }],
    })
    expect(existsSync(join(folder, 'hello.txt'))).toBe(false)
    const past = (
      await hereJson<{ actor: string; told?: string; after: { status: string } }[]>(folder, ['history', plan])
    ).values[0]!
    expect(past.slice(-3).map(({ actor, told, after }) => [actor, told, after.status])).toEqual([
      [expect.any(String), undefined, 'completed'],
      ['cli', 'rollback_planned', 'completed'],
      ['cli', 'rollback_executed', 'completed'],
    ])
    expect((await mplpHere(folder, ['history', plan])).out).toMatch(/rollback_executed +run \S+ is taken back\n$/)
    expect((await mplpHere(folder, ['store', 'verify'])).code).toBe(0)
    expect(await mplpHere(folder, ['evidence', 'export', plan, 'evidence'])).toMatchObject({ code: 0 })
    expect(await mplpHere(folder, ['evidence', 'verify', 'evidence'])).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^ADMISSIBLE\nroot [0-9a-f]{64}\n$/),
    })
  })
})

describe('rerun', PATIENT, () => {
  const operation = (params: JsonObject) => ({ action_type: 'file_operation', params })

  it('goes on where a run has failed, says from where it has what it does not do again, and is proved and taken back as any other', async () => {
    const folder = tempFolder()
    await mplpHere(folder, ['init'])
    const flow = {
      title: 'Copy',
      steps: {
        write: operation({ operation: 'write', path: 'out.txt', content: 'first' }),
        read: { ...operation({ operation: 'read', path: 'in.txt' }), dependencies: ['write'] },
      },
    }
    writeFileSync(join(folder, 'copy.json'), JSON.stringify(flow))
    type Ran = { run_id: string; plan_id: string; status: string; outputs: { [step: string]: unknown } }
    const ran = await hereJson<Ran>(folder, ['run', 'copy.json'])
    expect(ran).toMatchObject({ code: 1, values: [{ status: 'failed' }] })
    const first = ran.values[0]!
    appendFileSync(join(folder, 'out.txt'), ' and more')
    writeFileSync(join(folder, 'in.txt'), 'something')
    const options = ['--options', '{"concurrency":1}', '--reason', 'it is there by now']
    const detached = await hereJson<Ran>(folder, ['rerun', first.plan_id, '--detach', ...options])
    expect(detached.code).toBe(0)
    const again = await hereJson<Ran>(folder, ['rerun', first.run_id])
    expect(again).toMatchObject({ code: 0, values: [{ status: 'completed', run_id: detached.values[0]!.run_id }] })
    expect(readFileSync(join(folder, 'out.txt'), 'utf8')).toBe('first and more') // not written again
    const { run_id, plan_id, outputs } = again.values[0]!
    expect(Object.values(outputs)).toMatchObject([{ path: 'out.txt' }, { content: 'something' }])

    const shown = await hereJson<JsonObject>(folder, ['show', run_id])
    expect(shown.values[0]).toMatchObject({ rerun_of: first.run_id, options: { concurrency: 1 } })
    const past = await hereJson<{ actor: string; reason: string }[]>(folder, ['history', run_id])
    expect(past.values[0]![0]).toMatchObject({ actor: 'cli', reason: 'it is there by now' })
    const [step] = Object.keys(outputs)
    const action = firstActionOf(step!)
    const chain = await hereJson<{ id: string }[]>(folder, ['why', action])
    expect(chain.values[0]!.map(({ id }) => id)).toEqual(expect.arrayContaining([first.plan_id, plan_id, action]))

    expect((await mplpHere(folder, ['doctor'])).code).toBe(0)
    expect((await mplpHere(folder, ['store', 'verify'])).code).toBe(0)
    expect((await mplpHere(folder, ['evidence', 'export', run_id, 'evidence'])).code).toBe(0)
    expect((await mplpHere(folder, ['evidence', 'verify', 'evidence'])).out).toMatch(/^ADMISSIBLE/)
    expect(await mplpHere(folder, ['rerun', run_id])).toMatchObject({
      code: 1,
      err: expect.stringContaining('is completed'),
    })
    expect(await mplpHere(folder, ['rollback', first.run_id])).toMatchObject({
      code: 1,
      err: expect.stringContaining(run_id),
    })
    writeFileSync(join(folder, 'out.txt'), 'first')
    expect((await mplpHere(folder, ['rollback', run_id])).code).toBe(0)
    expect(existsSync(join(folder, 'out.txt'))).toBe(false)
  })

  it('says of one that has ended before how it went, with its events, and how to go on from there', async () => {
    const folder = tempFolder()
    await mplpHere(folder, ['init'])
    const steps = { read: operation({ operation: 'read', path: 'in.txt' }) }
    writeFileSync(join(folder, 'read.json'), JSON.stringify({ title: 'Read', steps }))
    type Ran = { run_id: string; plan_id: string }
    const [first] = (await hereJson<Ran>(folder, ['run', 'read.json'])).values
    const once = await hereJson<Ran>(folder, ['rerun', first!.run_id])
    expect(once).toMatchObject({ code: 1, err: '' })
    const { run_id, plan_id } = once.values[0]!
    writeFileSync(join(folder, 'in.txt'), 'something')
    const twice = await mplpHere(folder, ['rerun', first!.run_id, '--events'])
    expect(twice).toMatchObject({
      code: 1,
      out: expect.stringMatching(/step_failed read\n[\s\S]*\nfailed: the step “read”/),
    })
    expect(twice.err).toBe(
      `mplp: it has gone on before, in a run that has ended; this is how. mplp rerun ${run_id} goes on from there\n`,
    )
    expect((await mplpHere(folder, ['rerun', plan_id])).code).toBe(0)
    expect(await mplpHere(folder, ['rerun', plan_id, '--detach'])).toMatchObject({
      code: 0,
      out: expect.stringContaining('completed'), // and nobody is told to resume it
      err: 'mplp: it has gone on before, in a run that has ended; this is how\n',
    })
  })
})

describe('a snapshot that others have named by a number', PATIENT, () => {
  it('is not taken for a revision, nor a revision for it', async () => {
    const folder = tempFolder()
    await mplpHere(folder, ['init'])
    const { values } = await hereJson<{ context_id: string }>(folder, ['run', 'flow.json'])
    const { context_id } = values[0]!
    const store = await openStore(`sqlite:${join(folder, '.mplp/state.db')}`)
    const graph = await (await openProject(store)).context(context_id)
    const { id } = await graph.snapshot('1', { actor: 'http', reason: 'posted' })
    await store.close()
    const since = (from: string) => mplpHere(folder, ['snapshot', 'diff', context_id, from])
    const refused = await since('1')
    expect({ code: refused.code, said: oneLine(refused) }).toEqual({
      code: 64,
      said: `mplp: the command line is not valid: 1 names a revision and a snapshot: give ${id} for the snapshot, 01 for the revision`,
    })
    expect((await since(id)).out).toBe(`+  snapshot  ${id}\n`)
    expect((await since('01')).out).toContain('~  step')
  })
})

describe('a plan that writes three files and fails', PATIENT, () => {
  it('is taken back: files and graph are as they were, and what it wrote was never drift', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'mplp.config.json'), '{ "root": "." }')
    writeFileSync(join(folder, 'kept.txt'), 'kept\n')
    writeFileSync(join(folder, 'doomed.txt'), 'doomed\n')
    const file = (params: JsonObject) => ({ binding: { action_type: 'file_operation', params } })
    const flow = flowOf({
      change: file({ operation: 'write', path: 'kept.txt', content: 'changed\n' }),
      create: { ...file({ operation: 'write', path: 'deep/new.txt', content: 'new\n' }), after: ['change'] },
      remove: { ...file({ operation: 'delete', path: 'doomed.txt' }), after: ['create'] },
      fail: { ...file({ operation: 'read', path: 'absent.txt' }), after: ['remove'] },
    })
    writeFileSync(join(folder, 'flow.json'), JSON.stringify(flow))
    expect(await hereJson(folder, ['drift', 'scan'])).toMatchObject({ code: 0 })
    const before = await believed(folder)
    expect(await hereJson(folder, ['run', 'flow.json'])).toMatchObject({ code: 1, values: [{ status: 'failed' }] })
    expect(await hereJson(folder, ['drift', 'scan'])).toMatchObject({ code: 0, values: [{ findings: [] }] })
    expect([...(await believed(folder)).keys()]).toEqual(['deep/new.txt', 'flow.json', 'kept.txt', 'mplp.config.json'])

    const { plan_id } = flow.plan
    const planned = await hereJson(folder, ['rollback', plan_id, '--dry-run'])
    expect(planned).toMatchObject({ code: 0, values: [{ status: 'planned', plan: { effects: [{}, {}, {}] } }] })
    expect(readFileSync(join(folder, 'kept.txt'), 'utf8')).toBe('changed\n')
    const done = await hereJson(folder, ['rollback', plan_id])
    expect(done).toMatchObject({ code: 0, values: [{ status: 'done', left: [] }] })
    expect(readFileSync(join(folder, 'kept.txt'), 'utf8')).toBe('kept\n')
    expect(readFileSync(join(folder, 'doomed.txt'), 'utf8')).toBe('doomed\n')
    expect(existsSync(join(folder, 'deep/new.txt'))).toBe(false)
    expect(await hereJson(folder, ['drift', 'scan'])).toMatchObject({ code: 0, values: [{ findings: [] }] })
    expect(await believed(folder)).toEqual(before)
    expect((await mplpHere(folder, ['store', 'verify'])).code).toBe(0)
  })

  it('says what going back to a snapshot would change, node by node', async () => {
    const folder = tempFolder()
    const store = await openStore(`sqlite:${join(folder, '.mplp/state.db')}`)
    const shop = await world({ store, clock: systemClock })
    await shop.graph.snapshot('before', by)
    const { id, changes } = planOf(shop)
    await shop.graph.commit(changes, by)
    await store.close()
    const { out } = await mplpHere(folder, ['snapshot', 'restore', shop.context, 'before', '--dry-run'])
    expect(out.split('\n')).toEqual(expect.arrayContaining(['4 changes would go back', `node_delete  plan ${id}`]))
  })

  it('leaves alone what somebody changed since, and says so', async () => {
    const folder = tempFolder()
    await mplpHere(folder, ['init'])
    const { values } = await hereJson<{ plan_id: string }>(folder, ['run', 'flow.json'])
    writeFileSync(join(folder, 'hello.txt'), 'theirs\n')
    const back = await hereJson(folder, ['rollback', values[0]!.plan_id])
    expect(back).toMatchObject({
      code: 1,
      values: [{ status: 'incomplete', left: [{ what: 'file', name: 'hello.txt' }] }],
    })
    expect(readFileSync(join(folder, 'hello.txt'), 'utf8')).toBe('theirs\n')
  })

  /** What the graph believes about the files of a folder: digests by path. */
  async function believed(folder: string): Promise<ReadonlyMap<string, string>> {
    const store = await openStore(`sqlite:${join(folder, '.mplp/state.db')}`)
    try {
      const project = await openProject(store)
      const graph = await projectFolder(project, { root: realpathSync(folder) }).graph()
      await graph.load('files')
      const nodes = [...graph.state.nodesOf('files')].filter((node) => isKind(node, 'file'))
      return new Map(nodes.map(({ data: { path, digest } }) => [path, String(digest)] as const).sort())
    } finally {
      await store.close()
    }
  }
})

describe('drift', PATIENT, () => {
  it('finds what a renamed file is about under its old name, too', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'old.md'), 'a\n')
    await mplpHere(folder, ['drift', 'scan'])
    renameSync(join(folder, 'old.md'), join(folder, 'new.md'))
    expect((await mplpHere(folder, ['drift', 'diff', './old.md'])).code).toBe(0)
    const settled = await hereJson(folder, ['drift', 'reconcile', './old.md', '--strategy', 'graph'])
    expect(settled).toMatchObject({ code: 0, values: [[{ outcome: 'restored' }]] })
    expect(existsSync(join(folder, 'old.md'))).toBe(true)
  })

  it('is found, listed, shown and settled', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'notes.md'), 'a\n')
    expect(await hereJson(folder, ['drift', 'scan'])).toMatchObject({ code: 0, values: [{ findings: [] }] })
    appendFileSync(join(folder, 'notes.md'), 'b\n')
    const found = [{ path: 'notes.md', what: 'modified' }]
    expect(await hereJson(folder, ['drift', 'scan'])).toMatchObject({ code: 3, values: [{ findings: found }] })
    expect(await hereJson(folder, ['drift', 'list'])).toMatchObject({ code: 0, values: [found] })
    expect((await mplpHere(folder, ['drift', 'diff', './notes.md'])).out).toMatch(/\n\+b\n$/)
    const settled = await hereJson(folder, ['drift', 'reconcile', join(folder, 'notes.md'), '--strategy', 'graph'])
    expect(settled.code).toBe(0)
    expect(readFileSync(join(folder, 'notes.md'), 'utf8')).toBe('a\n')
    expect(await hereJson(folder, ['drift', 'list'])).toMatchObject({ values: [[]] })
  })
})

describe('what drift has found', PATIENT, () => {
  it('is listed and settled by path, and asked about with a diff that can be read', async () => {
    const folder = tempFolder()
    await mplpHere(folder, ['init'])
    await mplpHere(folder, ['drift', 'scan'])
    const names = ['d', 'b', 'e', 'a', 'c']
    for (const name of names) writeFileSync(join(folder, name), `the first line of ${name}\nthe second\n`)
    const paths = (findings: readonly { path: string }[]) => findings.map(({ path }) => path)
    await mplpHere(folder, ['drift', 'scan'])
    const scanned = await hereJson<{ findings: { path: string }[] }>(folder, ['drift', 'scan'])
    const listed = await hereJson<{ path: string }[]>(folder, ['drift', 'list'])
    expect([paths(scanned.values[0]!.findings), paths(listed.values[0]!)]).toEqual([names.sort(), names.sort()])
    const { out } = await mplpHere(folder, ['confirm', 'list'])
    expect(out).toContain('\n  +the first line of c\n  +the second\n')
    const settled = await hereJson<{ finding: { path: string } }[]>(folder, ['drift', 'reconcile', 'all'])
    expect(paths(settled.values[0]!.map(({ finding }) => finding))).toEqual(names.sort())
  })

  it('is told with the command that answers, and who then does as it says', async () => {
    const folder = tempFolder()
    await mplpHere(folder, ['init'])
    await mplpHere(folder, ['drift', 'scan'])
    writeFileSync(join(folder, 'a'), 'a\n')
    await mplpHere(folder, ['drift', 'scan'])
    const asked = await mplpHere(folder, ['drift', 'reconcile', 'a'])
    const [, id] = /^asked {2}a {2}mplp confirm approve (\S+), or reject\n$/.exec(asked.out) ?? []
    const { out } = await mplpHere(folder, ['confirm', 'approve', id!])
    expect(out).toBe(`${id} is approved; who watches the folder sees to it; where nobody does, mplp drift scan does\n`)
    expect(await mplpHere(folder, ['drift', 'scan'])).toMatchObject({
      code: 0,
      out: 'accepted  a\ngraph and files agree\n',
    })
  })

  it('is told when a rule has settled it: a file that a scan takes away does not go in silence', async () => {
    const folder = tempFolder()
    const rules = [{ match: 'made/**', strategy: 'graph' }]
    writeFileSync(join(folder, 'mplp.config.json'), JSON.stringify({ root: '.', drift: { rules } }))
    await mplpHere(folder, ['drift', 'scan'])
    mkdirSync(join(folder, 'made'))
    writeFileSync(join(folder, 'made/a'), 'a\n')
    const scanned = await mplpHere(folder, ['drift', 'scan'])
    expect(scanned).toMatchObject({ code: 0, out: 'restored  made/a\ngraph and files agree\n' })
    writeFileSync(join(folder, 'made/b'), 'b\n')
    writeFileSync(join(folder, 'c'), 'c\n')
    const { code, values } = await hereJson(folder, ['drift', 'scan'])
    const settled = [{ finding: { path: 'made/b' }, outcome: 'restored' }]
    expect({ code, values }).toMatchObject({ code: 3, values: [{ settled, findings: [{ path: 'c' }] }] })
  })
})

describe('list --ended', PATIENT, () => {
  const flow = (title: string, name: string, chosen?: { run: string }) => {
    const made = flowOf({ a: { call: name } }, chosen ? { chosen } : {})
    return JSON.stringify({ ...made, plan: { ...made.plan, title } })
  }
  const config = `export default { vsl: 'sqlite:./s.db', functions: { fine: () => 1, fails: () => { throw new Error('no\\nway') } } }`

  it('shows what has ended, the last one first, by status, and as many as are asked for', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'mplp.config.mjs'), config)
    const flows = {
      one: flow('one', 'fine'),
      two: flow('two', 'fails'),
      three: flow('three', 'fine', { run: 'c0ffee00-0000-4000-8000-000000000001' }), // tells no time of its own
      four: flow('four', 'fails'),
    }
    for (const [name, text] of Object.entries(flows)) {
      writeFileSync(join(folder, `${name}.json`), text)
      await mplpHere(folder, ['run', `${name}.json`])
    }
    writeFileSync(join(folder, 'asks.json'), JSON.stringify(flowOf({ a: { call: 'fine' } }, { approval: {} })))
    await mplpHere(folder, ['run', 'asks.json', '--detach'])
    const titles = async (...options: string[]) =>
      (await hereJson<readonly JsonObject[]>(folder, ['list', '--ended', ...options])).values[0]!.map(
        ({ title }) => title,
      )

    expect(await titles()).toEqual(['four', 'three', 'two', 'one'])
    expect(await titles('--limit', '2')).toEqual(['four', 'three'])
    expect(await titles('--status', 'failed')).toEqual(['four', 'two'])
    expect(await titles('--status', 'completed', '--limit', '1')).toEqual(['three'])
    expect(await titles('--status', 'cancelled')).toEqual([])
    const { out } = await mplpHere(folder, ['list', '--ended', '--limit', '1'])
    expect(out).toMatch(/^failed {2}plan \S+ {2}context \S+ {2}\S+Z {2}four: .*no\n$/)
  })

  it.each([
    [['--limit', '3'], '--limit goes with --ended'],
    [['--status', 'failed'], '--status goes with --ended'],
    [['--ended', '--limit', '0'], '--limit must be a whole number of at least 1'],
  ])('refuses what means nothing: %s', async (options, said) => {
    const refused = await mplpHere(tempFolder(), ['list', ...options])
    expect({ code: refused.code, said: oneLine(refused) }).toEqual({ code: 64, said: expect.stringContaining(said) })
  })
})

describe('store stats', PATIENT, () => {
  it('counts runs by what list shows of them, and questions apart', async () => {
    const folder = tempFolder()
    await mplpHere(folder, ['init'])
    await mplpHere(folder, ['run', 'flow.json'])
    writeFileSync(join(folder, 'held.json'), JSON.stringify(flowOf(hold)))
    writeFileSync(join(folder, 'asks.json'), JSON.stringify(flowOf(hold, { approval: {} })))
    for (const name of ['held', 'asks']) await mplpHere(folder, ['run', `${name}.json`])
    await mplpHere(folder, ['run', 'flow.json', '--detach'])
    const counts = {
      plans: 4,
      runs_running: 1,
      runs_waiting: 2,
      runs_ended: 1,
      confirms_waiting: 1,
      bytes: expect.any(Number),
    }
    expect((await hereJson(folder, ['store', 'stats'])).values).toMatchObject([counts])
  })
})

describe('store verify', PATIENT, () => {
  it('finds a damaged store wanting, also where it cannot be read', async () => {
    const folder = tempFolder()
    await mplpHere(folder, ['init'])
    const store = ['--store', 'file:./state']
    await mplpHere(folder, ['run', 'flow.json', ...store])
    const journal = join(folder, 'state/journal/000000000001.jsonl')
    writeFileSync(journal, readFileSync(journal, 'utf8').replace('A first plan', 'A worse plan'))
    const { code, err, values } = await hereJson(folder, ['store', 'verify', ...store])
    expect({ code, err, values }).toMatchObject({
      code: 3,
      err: '',
      values: [{ findings: [{ rule: 'store.damaged' }] }],
    })
  })

  it.each(['', '{"a":'])(
    'finds a value of a caller of its own wanting that says only %j, and proves the rest',
    async (left) => {
      const folder = tempFolder()
      await mplpHere(folder, ['init'])
      await mplpHere(folder, ['run', 'flow.json'])
      const file = join(folder, '.mplp/state.db')
      const store = await openStore(`sqlite:${file}`)
      await store.set('mine', { a: 1 })
      await store.close()
      expect(await mplpHere(folder, ['store', 'verify'])).toMatchObject({ code: 0 })
      const db = new Database(file)
      db.prepare('UPDATE own SET value = ?').run(left)
      db.close()
      const { code, values } = await hereJson(folder, ['store', 'verify'])
      const findings = [{ rule: 'value.form', message: expect.stringContaining('the value of mine') }]
      expect({ code, values }).toMatchObject({ code: 3, values: [{ findings }] })
    },
  )

  it('writes nothing into a store that has lost the id of its project, and proves the rest of it', async () => {
    const folder = tempFolder()
    await mplpHere(folder, ['init'])
    await mplpHere(folder, ['run', 'flow.json'])
    const url = `sqlite:${join(folder, '.mplp/state.db')}`
    const store = await openStore(url)
    await store.commit({ stream: 'x', expected: 0, inserts: [], puts: [], deletes: ['project'] })
    await store.close()
    const { code, values } = await hereJson(folder, ['store', 'verify'])
    expect({ code, values }).toMatchObject({ code: 3, values: [{ findings: [{ rule: 'store.damaged' }] }] })
    const again = await openStore(url)
    expect((await again.getMany(['project'])).size).toBe(0)
    await again.close()
  })

  it('says when a run is in no list, and what puts it there', async () => {
    const folder = tempFolder()
    await mplpHere(folder, ['init'])
    writeFileSync(join(folder, 'asks.json'), JSON.stringify(flowOf(hold, { approval: {} })))
    const { values } = await hereJson<{ plan_id: string }>(folder, ['run', 'asks.json', '--detach'])
    const { plan_id } = values[0]!
    const store = await openStore(`sqlite:${join(folder, '.mplp/state.db')}`)
    const row = `resting/${plan_id}`
    await store.commit({ stream: 'x', expected: 0, inserts: [], puts: [], deletes: [row] }) // no version before it wrote one
    await store.close()
    const listed = async () =>
      (await hereJson<readonly object[]>(folder, ['list'])).values.flat().filter((found) => 'plan_id' in found)

    expect(await listed()).toEqual([])
    const verified = await mplpHere(folder, ['store', 'verify'])
    expect([verified.code, verified.out]).toEqual([
      3,
      expect.stringMatching(/^index\.resting .*\n.*mplp store reindex/),
    ])
    const reindexed = await hereJson(folder, ['store', 'reindex'])
    expect(reindexed).toMatchObject({
      code: 0,
      values: [{ mended: [{ rule: 'index.resting', node: row }], findings: [] }],
    })
    expect(await listed()).toMatchObject([{ plan_id, phase: 'waiting' }])
    expect((await mplpHere(folder, ['store', 'verify'])).code).toBe(0)
  })

  it.each(['verify', 'reindex', 'stats', 'copy'])(
    'and its kin do not make the store that they are to look at: %s',
    async (verb) => {
      const folder = tempFolder()
      for (const url of ['sqlite:./typo.db', 'file:./typo']) {
        const to = verb === 'copy' ? ['memory:'] : []
        const refused = await mplpHere(folder, ['store', verb, ...to, '--store', url])
        expect({ code: refused.code, said: oneLine(refused) }).toEqual({
          code: 1,
          said: `mplp: there is no store ${url}; mplp run makes it, and mplp init a flow to run; --store names another`,
        })
      }
      expect(readdirSync(folder)).toEqual([])
    },
  )
})

describe('a store that lies in the folder itself', PATIENT, () => {
  it.each(['sqlite:./state.db', 'file:./state (1)', 'sqlite:./deep/er/state.db'])(
    'is no part of it: %s',
    async (vsl) => {
      const folder = tempFolder()
      writeFileSync(join(folder, 'mplp.config.json'), JSON.stringify({ vsl, root: '.' }))
      mkdirSync(join(folder, 'deep/er'), { recursive: true })
      for (let scan = 0; scan < 3; scan++)
        expect(await hereJson(folder, ['drift', 'scan'])).toMatchObject({
          code: 0,
          values: [{ files: 1, findings: [] }],
        })
    },
  )
})

describe('a config in another folder', PATIENT, () => {
  const RELATIVE = { vsl: 'file:./kept', root: 'project', mcp: { own: { command: 'node', cwd: 'tools' } } }

  it.each(['mplp.config.json', 'mplp.config.mjs'])('has its paths count from there: %s', async (name) => {
    const folder = realpathSync(tempFolder())
    for (const inside of ['project', 'elsewhere']) mkdirSync(join(folder, inside))
    const text = JSON.stringify(RELATIVE)
    writeFileSync(join(folder, name), name.endsWith('json') ? text : `export default ${text}`)
    const print = ['config', 'print', '--config', `../${name}`]
    const { values } = await hereJson(join(folder, 'elsewhere'), print)
    expect(values).toEqual([
      {
        vsl: `file:${join(folder, 'kept')}`,
        root: join(folder, 'project'),
        mcp: { own: { command: 'node', cwd: join(folder, 'tools') } },
      },
    ])
    const [flagged] = (await hereJson(join(folder, 'elsewhere'), [...print, '--store', 'file:./mine'])).values
    expect(flagged).toMatchObject({ vsl: 'file:./mine' })
    expect((await hereJson(folder, ['config', 'print'])).values).toEqual([RELATIVE])
  })

  it('is that of the same store and the same files, also where it names no store', async () => {
    const folder = realpathSync(tempFolder())
    const elsewhere = join(folder, 'elsewhere')
    mkdirSync(elsewhere)
    await mplpHere(folder, ['init'])
    writeFileSync(join(folder, 'mplp.config.json'), '{ "root": "." }')
    const { values } = await hereJson<{ plan_id: string }>(folder, ['run', 'flow.json'])
    const there = ['--config', '../mplp.config.json']
    expect(await mplpHere(elsewhere, ['show', values[0]!.plan_id, ...there])).toMatchObject({ code: 0, err: '' })
    const scanned = await hereJson<{ root: string }>(elsewhere, ['drift', 'scan', ...there])
    expect(scanned.values[0]).toMatchObject({ root: folder })
    expect(readdirSync(elsewhere)).toEqual([])
  })
})

describe('golden', PATIENT, () => {
  it('runs flows on the stores that are named, and ends by itself', async () => {
    const ran = await mplpJson<{ totals: object; passed: boolean }>(tempFolder(), [
      'golden',
      '--backends',
      'memory, sqlite',
      '--filter',
      'approval-withdrawn',
    ])
    const all = { passed: 1, failed: 0 }
    expect(ran).toMatchObject({ code: 0, values: [{ passed: true, totals: { memory: all, sqlite: all } }] })
  })

  it('refuses a filter that matches nothing', async () => {
    const refused = await mplp(tempFolder(), ['golden', '--backends', 'memory', '--filter', 'no-such-flow'])
    expect(refused.code).toBe(64)
    expect(oneLine(refused)).toContain('filter')
  })
})

describe('doctor', PATIENT, () => {
  it('tells a config that cannot be used as such, by its file', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'mplp.config.json'), '{ "vls": "memory:" }')
    const { code, values } = await hereJson<{ check: string; says: string }[]>(folder, ['doctor'])
    expect([code, values[0]!.map(({ check }) => check)]).toEqual([1, ['node', 'watcher', 'config']])
    const says = expect.stringMatching(/mplp\.config\.json is not valid: vls is not known; did you mean vsl\?$/)
    expect(values[0]!.at(-1)).toMatchObject({ verdict: 'failed', says, remedy: 'mend what it names' })
  })

  it('tells a store that forgets, and one that cannot be reached', async () => {
    const folder = tempFolder()
    const forgets = await hereJson<{ check: string; verdict: string }[]>(folder, ['doctor', '--store', 'memory:'])
    expect(forgets.code).toBe(0)
    expect(forgets.values[0]).toContainEqual(expect.objectContaining({ check: 'store', verdict: 'warning' }))
    const gone = await hereJson<{ check: string; verdict: string }[]>(folder, [
      'doctor',
      '--store',
      'postgres://127.0.0.1:1/x',
    ])
    expect(gone.code).toBe(1)
    expect(gone.values[0]).toContainEqual(expect.objectContaining({ check: 'store', verdict: 'failed' }))
  })
})

describe('watch', PATIENT, () => {
  it.each([
    [[], 1],
    [['--json'], 0],
  ])('says once to people that they are asked, and what settles it: %j', async (options, times) => {
    const folder = tempFolder()
    for (const name of ['a.txt', 'b.txt']) writeFileSync(join(folder, name), 'old')
    await mplpHere(folder, ['drift', 'scan', folder])
    for (const name of ['a.txt', 'b.txt']) writeFileSync(join(folder, name), 'new')
    const { code, out, err } = await mplpHere(folder, ['watch', folder, ...options], 'watching')
    expect({ code, found: out.split('modified').length - 1 }).toEqual({ code: 0, found: 2 })
    expect(err.split('mplp drift reconcile <path>').length - 1).toBe(times)
  })
})
