import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Config } from '../../src/config.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { flowOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { serving } from './serving.ts'

const file = (params: { readonly [name: string]: string }) => ({
  binding: { action_type: 'file_operation', params },
})

describe('drift', () => {
  it('is found, listed, shown and settled', async () => {
    const root = tempFolder()
    writeFileSync(join(root, 'notes.md'), 'a\n')
    const { ask } = await serving({}, { root })
    expect(await ask('GET', '/drift')).toMatchObject({ status: 200, body: [] })
    expect(await ask('POST', '/drift/scan')).toMatchObject({ status: 200, body: { files: 1, findings: [] } })
    writeFileSync(join(root, 'notes.md'), 'a\nb\n')
    const found = [{ path: 'notes.md', what: 'modified' }]
    const scanned = await ask('POST', '/drift/scan')
    expect(scanned).toMatchObject({ body: { findings: found } })
    expect(await ask('GET', '/drift')).toMatchObject({ body: found })
    const { finding_id } = (scanned.body as { findings: { finding_id: string }[] }).findings[0]!
    expect(await ask('GET', `/drift/${encodeURIComponent(finding_id)}/diff`)).toMatchObject({
      body: { finding: found[0], diff: expect.stringContaining('+b') },
    })
    const settled = await ask('POST', '/drift/reconcile', { findings: ['notes.md'], strategy: 'graph' })
    expect(settled).toMatchObject({ status: 200, body: [{ outcome: 'restored' }] })
    expect(readFileSync(join(root, 'notes.md'), 'utf8')).toBe('a\n')
    expect(await ask('GET', '/drift')).toMatchObject({ body: [] })
  })

  it('is shown whole also where so much has changed that it lies in a blob', async () => {
    const root = tempFolder()
    const lines = (word: string) => Array.from({ length: 4_000 }, (_, i) => `${word} ${i}\n`).join('')
    writeFileSync(join(root, 'notes.md'), lines('before'))
    const { ask } = await serving({}, { root })
    await ask('POST', '/drift/scan')
    writeFileSync(join(root, 'notes.md'), lines('after'))
    expect(await ask('POST', '/drift/scan')).toMatchObject({ body: { findings: [{ diff_blob: expect.any(String) }] } })
    const { body } = await ask('GET', '/drift/notes.md/diff')
    expect((body as { diff: string }).diff).toContain('-before 3999\n')
    expect((body as { diff: string }).diff).toContain('+after 3999\n')
  })

  it('of a file that was renamed is shown by either name', async () => {
    const root = tempFolder()
    writeFileSync(join(root, 'old.md'), 'a\n'.repeat(20))
    const { ask } = await serving({}, { root })
    await ask('POST', '/drift/scan')
    renameSync(join(root, 'old.md'), join(root, 'new.md'))
    const finding = { what: 'renamed', path: 'new.md', from: 'old.md' }
    expect(await ask('POST', '/drift/scan')).toMatchObject({ body: { findings: [finding] } })
    for (const name of ['old.md', 'new.md'])
      expect(await ask('GET', `/drift/${name}/diff`)).toMatchObject({ status: 200, body: { finding } })
  })

  it('is told when a rule has settled it, also by the first scan of a process, in the words of mplp drift scan', async () => {
    const root = tempFolder()
    const store = memoryBackend()
    const drift: Config['drift'] = { rules: [{ match: 'made-*', strategy: 'graph' }] }
    const scanned = await (await serving({}, { root, drift }, { store })).ask('POST', '/drift/scan')
    expect(scanned.body).toEqual({ root, files: 0, folders: 1, unreadable: [], settled: [], findings: [] })
    const { ask } = await serving({}, { root, drift }, { store })
    for (const path of ['made-a', 'made-b']) {
      writeFileSync(join(root, path), path)
      writeFileSync(join(root, 'other'), path)
      const settled = [{ finding: { path }, outcome: 'restored' }]
      const answer = await ask('POST', '/drift/scan')
      expect(answer).toMatchObject({ status: 200, body: { settled, findings: [{ path: 'other' }] } })
      expect(existsSync(join(root, path))).toBe(false)
    }
    expect(await ask('POST', '/drift/scan')).toMatchObject({ body: { settled: [], findings: [{ path: 'other' }] } })
  })

  it('is told once a scan where a rule was refused, until what was in the way has gone', async () => {
    const root = tempFolder()
    const folder = join(root, 'folder')
    mkdirSync(folder)
    writeFileSync(join(folder, 'a'), 'a')
    const store = memoryBackend()
    const drift: Config['drift'] = { rules: [{ match: '**', strategy: 'graph' }] }
    await (await serving({}, { root, drift }, { store })).ask('POST', '/drift/scan')
    rmSync(folder, { recursive: true })
    execFileSync('mkfifo', [folder])
    const { ask } = await serving({}, { root, drift }, { store })
    const outcomes = async () => {
      const { settled } = (await ask('POST', '/drift/scan')).body as { settled: { outcome: string; reason?: string }[] }
      return settled.map(({ outcome, reason }) => reason ?? outcome)
    }
    for (let scans = 0; scans < 2; scans++) expect(await outcomes()).toEqual(['in_the_way'])
    rmSync(folder)
    expect(await outcomes()).toEqual(['restored'])
  })

  it('refuses what it does not understand, and says so where no folder is held', async () => {
    const { ask } = await serving({}, { root: tempFolder() })
    for (const [body, path] of [
      [{ findings: 'all' }, 'strategy'],
      [{ findings: 'all', strategy: 'guess' }, 'strategy'],
      [{ findings: 7, strategy: 'graph' }, 'findings'],
      [{ findings: 'all', strategy: 'graph', force: true }, 'force'],
    ] as const)
      expect(await ask('POST', '/drift/reconcile', body)).toMatchObject({ status: 400, body: { problems: [{ path }] } })
    expect(await ask('POST', '/drift/reconcile', { findings: ['x'], strategy: 'graph' })).toMatchObject({ status: 404 })
    expect(await ask('GET', '/drift/x/diff')).toMatchObject({ status: 404 })
    const bare = await serving()
    expect(await bare.ask('POST', '/drift/scan')).toMatchObject({ status: 409, body: { code: 'refused' } })
  })
})

describe('files that runs write', () => {
  it('are no drift, whichever context writes them, and a meddled one is refused', async () => {
    const root = tempFolder()
    writeFileSync(join(root, 'a.txt'), 'old\n')
    const { ask, runtime } = await serving({}, { root })
    const run = async (steps: Parameters<typeof flowOf>[0]) => {
      const flow = flowOf(steps)
      await ask('POST', '/runs', flow)
      return (await ask('GET', `/runs/${flow.plan.plan_id}?wait_ms=20000`)).body as { result: { status: string } }
    }
    const write = (content: string) => run({ w: file({ operation: 'write', path: 'a.txt', content }) })
    expect((await write('one\n')).result.status).toBe('completed')
    expect((await write('two\n')).result.status).toBe('completed')
    expect(await ask('POST', '/drift/scan')).toMatchObject({ body: { findings: [] } })
    writeFileSync(join(root, 'a.txt'), 'theirs\n')
    const refused = await write('three\n')
    expect(refused.result).toMatchObject({
      status: 'failed',
      error: { message: 'a.txt has changed since it was read' },
    })
    expect(readFileSync(join(root, 'a.txt'), 'utf8')).toBe('theirs\n')
    const graph = await runtime.folder!.graph()
    const [node] = [...graph.state.nodesOf('files')]
    expect(node?.data).toMatchObject({ path: 'a.txt', written_by: expect.any(String) })
  })

  it('are told of when they were deleted: what they were, when they went, and by what', async () => {
    const { ask } = await serving({}, { root: tempFolder() })
    const flow = flowOf({
      write: file({ operation: 'write', path: 'b.txt', content: 'b\n' }),
      drop: { ...file({ operation: 'delete', path: 'b.txt' }), after: ['write'] },
    })
    await ask('POST', '/runs', flow)
    await ask('GET', `/runs/${flow.plan.plan_id}?wait_ms=20000`)
    const deleted = { at: expect.stringMatching(/Z$/), actor: 'drift', revision: expect.any(Number) }
    const told = (await ask('GET', '/objects/b.txt')).body as { deleted: { reason: string } }
    expect(told).toMatchObject({ path: 'b.txt', size: 2, deleted })
    const [, action] = /^a file was deleted by action (.+)$/.exec(told.deleted.reason)!
    expect((await ask('GET', `/objects/${action}`)).body).toMatchObject({ step_id: flow.ids.drop })
    expect((await ask('GET', '/objects/b.txt/why')).body).toContainEqual(
      expect.objectContaining({ kind: 'file', says: 'b.txt', status: 'deleted' }),
    )
    expect((await ask('GET', '/objects/b.txt/history')).body).toMatchObject([{ after: { size: 2 } }, { before: {} }])
    expect(await ask('GET', '/objects/c.txt')).toMatchObject({ status: 404 })
    await ask('POST', '/runs', flowOf({ w: file({ operation: 'write', path: 'b.txt', content: 'again\n' }) }))
    await expect.poll(async () => (await ask('GET', '/objects/b.txt')).body).toMatchObject({ size: 6 })
    expect((await ask('GET', '/objects/b.txt')).body).not.toHaveProperty('deleted')
  })

  it('go back, and what cannot is left, if it is asked for so', async () => {
    const root = tempFolder()
    const { ask } = await serving({}, { root })
    const sent = { call: 'greet', binding: { inverse: 'irreversible', approval: 'none' } } as const
    const flow = flowOf({
      sent,
      create: { ...file({ operation: 'write', path: 'b.txt', content: 'b\n' }), after: ['sent'] },
    })
    await ask('POST', '/runs', flow)
    const at = `/runs/${flow.plan.plan_id}`
    expect(await ask('GET', `${at}?wait_ms=20000`)).toMatchObject({ body: { result: { status: 'completed' } } })
    expect(await ask('POST', `${at}/rollback`, { irreversible: 'ask' })).toMatchObject({ body: { status: 'waiting' } })
    expect(existsSync(join(root, 'b.txt'))).toBe(true)
    const left = await ask('POST', `${at}/rollback`, { irreversible: 'leave' })
    expect(left).toMatchObject({ status: 200, body: { left: [{ what: 'effect', reason: 'it cannot be undone' }] } })
    expect(existsSync(join(root, 'b.txt'))).toBe(false)
  })

  it('go back with a rollback, which first says what it would do', async () => {
    const root = tempFolder()
    writeFileSync(join(root, 'a.txt'), 'old\n')
    const { ask } = await serving({}, { root })
    const flow = flowOf({
      change: file({ operation: 'write', path: 'a.txt', content: 'new\n' }),
      create: { ...file({ operation: 'write', path: 'deep/b.txt', content: 'b\n' }), after: ['change'] },
      boom: { after: ['create'] },
    })
    await ask('POST', '/runs', flow)
    const at = `/runs/${flow.plan.plan_id}`
    expect(await ask('GET', `${at}?wait_ms=20000`)).toMatchObject({ body: { result: { status: 'failed' } } })
    const planned = await ask('POST', `${at}/rollback`, { dry_run: true })
    expect(planned).toMatchObject({ status: 200, body: { status: 'planned', plan: { effects: [{}, {}] } } })
    expect(existsSync(join(root, 'deep/b.txt'))).toBe(true)
    expect(await ask('POST', `${at}/rollback`, { irreversible: 'maybe' })).toMatchObject({ status: 400 })
    expect(await ask('POST', `${at}/rollback`, { dry_run: 'yes' })).toMatchObject({ status: 400 })
    const { paths } = (await ask('GET', '/openapi.json')).body as {
      paths: { [path: string]: { post?: { requestBody?: object } } }
    }
    expect(paths['/runs/{id}/rollback']!.post!.requestBody).toMatchObject({ required: false }) // as the next has none
    expect(await ask('POST', `${at}/rollback`)).toMatchObject({ status: 200, body: { status: 'done', left: [] } })
    expect(existsSync(join(root, 'deep/b.txt'))).toBe(false)
    expect(readFileSync(join(root, 'a.txt'), 'utf8')).toBe('old\n')
    expect(await ask('POST', '/drift/scan')).toMatchObject({ body: { findings: [] } })
    expect(await ask('POST', '/runs/absent/rollback')).toMatchObject({ status: 404 })
  })
})
