import { describe, expect, it } from 'vitest'
import { fileId } from '../../src/drift/compare.ts'
import { compensation, type Done, isMet, pathsIn } from '../../src/drift/compensate.ts'
import { type FileReturn, isEmpty, portionOf, type RunFacts, rollbackPlan } from '../../src/drift/rollback.ts'
import { digestOf, type JsonObject } from '../../src/protocol/json.ts'
import type { ActionRecord, Change, FileRecord } from '../../src/psg/change.ts'
import { seen } from './given.ts'

const record = (path: string, content: string, more: Partial<FileRecord> = {}): FileRecord => {
  const { type, digest, size, mode, kept } = seen(content)
  return { path, type: type as 'file', digest: digest!, size, mode, kept, mtime: '', ...more }
}
const action = (id: string, more: Partial<ActionRecord> = {}): ActionRecord => ({
  action_id: id,
  step_id: `step of ${id}`,
  idempotency_key: `key of ${id}`,
  status: 'completed',
  attempts: 1,
  failures: 0,
  execution_id: id,
  ...more,
})
const call = (name: string): JsonObject => ({ action_type: 'function', params: { name } })
const fileOperation = (params: JsonObject): JsonObject => ({ action_type: 'file_operation', params })
const plan = (facts: Partial<RunFacts> & { readonly changes?: readonly Change[] }) =>
  rollbackPlan({
    restoration: { changes: facts.changes ?? [], conflicts: [] },
    actions: [],
    believed: () => undefined,
    observed: new Map(),
    ...facts,
  })
const update = (id: string, set: JsonObject): Change => ({ kind: 'node_update', node: 'file', id, set }) as Change

describe('compensation', () => {
  const none = () => false

  it('goes back from the last done to the first', () => {
    const done = ['a', 'b', 'c'].map((id, i) => ({ action: action(id, { inverse: call(id) }), ended: [2, 9, 4][i]! }))
    expect(compensation(done, none).effects.map(({ action_id }) => action_id)).toEqual(['b', 'c', 'a'])
  })

  it('leaves out what needs nothing, what did not happen, and what was taken back already', () => {
    const done = [
      action('read'),
      action('failed', { status: 'failed', inverse: call('x') }),
      action('undone', { inverse: call('x') }),
      action('its inverse', { compensates: 'undone' }),
      action('tried', { inverse: call('x') }),
      action('its failed inverse', { compensates: 'tried', status: 'failed' }),
    ].map((each, i) => ({ action: each, ended: i }))
    expect(compensation(done, none).effects.map(({ action_id }) => action_id)).toEqual(['tried'])
  })

  it('counts how often the way back was cut off, and not how often it failed', () => {
    const interrupted = { status: 'failed', error: { code: 'interrupted', message: 'cut off' } } as const
    const done = [
      action('made', { inverse: call('x') }),
      action('failed', { compensates: 'made', status: 'failed' }),
      action('cut off', { compensates: 'made', ...interrupted }),
      action('under way', { compensates: 'made', status: 'running' }),
    ].map((each, i) => ({ action: each, ended: i }))
    expect(compensation(done, none).effects).toMatchObject([{ action_id: 'made', cut_off: 2 }])
  })

  it('tells apart what nothing takes back', () => {
    const done = [{ action: action('sent', { inverse: 'irreversible' as const }), ended: 1 }]
    expect(compensation(done, none)).toEqual({
      effects: [],
      irreversible: [{ action_id: 'sent', step_id: 'step of sent' }],
    })
  })

  it('knows the paths of file operations, however they are written', () => {
    expect(pathsIn(fileOperation({ operation: 'move', path: './a', to: 'b//c' }))).toEqual(['a', 'b/c'])
    expect(pathsIn(call('a'))).toEqual([])
  })

  it('sees when the disk is already as an inverse would make it, where it has looked', () => {
    const disk = new Map([
      ['gone', undefined],
      ['old', seen('old')],
      ['new', seen('new')],
    ])
    expect(isMet(fileOperation({ operation: 'delete', path: 'gone' }), disk)).toBe(true)
    expect(isMet(fileOperation({ operation: 'delete', path: 'new' }), disk)).toBe(false)
    expect(isMet(fileOperation({ operation: 'write', path: 'old', content_digest: digestOf('old') }), disk)).toBe(true)
    expect(isMet(fileOperation({ operation: 'write', path: 'new', content_digest: digestOf('old') }), disk)).toBe(false)
    expect(
      isMet(fileOperation({ operation: 'move', path: 'gone', to: 'old', expected_digest: digestOf('old') }), disk),
    ).toBe(true)
    for (const path of ['new', 'never looked at'])
      expect(isMet(fileOperation({ operation: 'move', path, to: 'old', expected_digest: digestOf('old') }), disk)).toBe(
        false,
      )
    expect(isMet(fileOperation({ operation: 'delete', path: 'never looked at' }), disk)).toBe(false)
    expect(isMet(call('delete'), disk)).toBe(false)
  })
})

describe('the plan of a rollback', () => {
  it('brings files back that are as the run left them', () => {
    const { files, conflicts } = plan({
      changes: [update('1', { digest: digestOf('old') }), { kind: 'node_delete', node: 'file', id: '2' }],
      believed: (id) => (id === '1' ? record('a', 'run') : record('b', 'run')),
      observed: new Map([
        ['a', seen('run')],
        ['b', seen('run')],
      ]),
    })
    expect(files.map(({ path, before }) => [path, before?.digest ?? null])).toEqual([
      ['a', digestOf('old')],
      ['b', null],
    ])
    expect(conflicts).toEqual([])
  })

  it('leaves a file that somebody changed on the disk since, and says so', () => {
    const { files, conflicts } = plan({
      changes: [update('1', { digest: digestOf('old') })],
      believed: () => record('a', 'run'),
      observed: new Map([['a', seen('edited')]]),
    })
    expect([files, conflicts]).toEqual([[], [{ what: 'file', name: 'a', reason: expect.any(String) }]])
  })

  it('takes over a file that somebody has put back already', () => {
    const { files } = plan({
      changes: [update('1', { digest: digestOf('old') })],
      believed: () => record('a', 'run'),
      observed: new Map([['a', seen('old')]]),
    })
    expect(files.map(({ path }) => path)).toEqual(['a'])
  })

  it('says nothing of a file that is as it was, and whose it is already', () => {
    const back = plan({
      changes: [update('1', { mtime: 'then' })],
      believed: () => record('a', 'same', { written_by: 'an action before' }),
      observed: new Map([['a', seen('same')]]),
    })
    expect(isEmpty(back)).toBe(true)
  })

  it('leaves a file that is not looked at any more: nobody knows what lies there', () => {
    const { files, conflicts, effects } = plan({
      changes: [update('1', { digest: digestOf('old') }), { kind: 'node_delete', node: 'file', id: '2' }],
      believed: (id) => (id === '1' ? record('a', 'run') : record('b', 'run')),
      actions: [{ action: action('1', { inverse: fileOperation({ operation: 'delete', path: 'b' }) }), ended: 1 }],
    })
    expect([files, effects, conflicts.map(({ name }) => name)]).toEqual([[], [], ['a', 'b']])
  })

  it('says what was too large to be kept', () => {
    const { files, impossible } = plan({
      changes: [update('1', { digest: digestOf('old'), kept: false })],
      believed: () => record('a', 'run'),
      observed: new Map([['a', seen('run')]]),
    })
    expect([files, impossible.map(({ name }) => name)]).toEqual([[], ['a']])
  })

  it('takes a file back once: by the graph where it is tracked, by its inverse where it is not', () => {
    const back = (path: string) => fileOperation({ operation: 'write', path, content_digest: digestOf('old') })
    const { files, effects } = plan({
      changes: [update('1', { digest: digestOf('old') })],
      believed: () => record('tracked', 'run'),
      observed: new Map([['tracked', seen('run')]]),
      actions: [
        { action: action('1', { inverse: back('tracked') }), ended: 1 },
        { action: action('2', { inverse: back('untracked') }), ended: 2 },
      ],
    })
    expect([files.length, effects.map(({ action_id }) => action_id)]).toEqual([1, ['2']])
  })

  it('does not undo by an inverse what somebody else changed since', () => {
    const { effects, conflicts } = plan({
      restoration: {
        changes: [],
        conflicts: [{ kind: 'file', id: '1', revision: 7, message: 'changed by somebody else' }],
      },
      believed: () => record('a', 'theirs'),
      observed: new Map([['a', seen('theirs')]]),
      actions: [{ action: action('1', { inverse: fileOperation({ operation: 'delete', path: 'a' }) }), ended: 1 }],
    })
    expect([effects, conflicts]).toEqual([[], [{ what: 'file', name: 'a', reason: 'changed by somebody else' }]])
  })

  it('gives a file its mode back though its content was not kept: that is what it was', () => {
    const { files, impossible } = plan({
      changes: [update('1', { mode: 0o644, kept: false })],
      believed: () => record('a', 'same', { mode: 0o755 }),
      observed: new Map([['a', seen('same', { mode: 0o755 })]]),
    })
    expect([files.map(({ path }) => path), impossible]).toEqual([['a'], []])
  })

  it('leaves to its inverse what the graph cannot bring back, and then says nothing of it', () => {
    const inverse = fileOperation({ operation: 'write', path: 'a', content_digest: digestOf('old') })
    const { effects, impossible } = plan({
      changes: [update('1', { digest: digestOf('old'), kept: false })],
      believed: () => record('a', 'run'),
      wrote: new Map([['1', 'a']]),
      observed: new Map([['a', seen('run')]]),
      actions: [{ action: action('1', { inverse }), ended: 1 }],
    })
    expect([effects.length, impossible]).toEqual([1, []])
  })

  it('leaves to inverses what would be lost, and with it all that was moved there and away, one after the other', () => {
    const large = seen('large', { kept: false })
    const facts = (...actions: Done[]) =>
      plan({
        changes: [{ kind: 'node_delete', node: 'file', id: '1' }],
        believed: () => record('b', 'large'),
        wrote: new Map([
          ['1', 'b'],
          ['2', 'a'],
        ]),
        observed: new Map([
          ['a', undefined],
          ['b', large],
        ]),
        actions,
      })
    const made = fileOperation({ operation: 'delete', path: 'a', expected_digest: digestOf('large') })
    const moved = fileOperation({ operation: 'move', path: 'b', to: 'a', expected_digest: digestOf('large') })
    const { files, effects, impossible } = facts(
      { action: action('1', { inverse: made }), ended: 1 },
      { action: action('2', { inverse: moved }), ended: 2 },
    )
    expect([files, effects.map(({ action_id }) => action_id), impossible]).toEqual([[], ['2', '1'], []])
    expect(facts()).toMatchObject({ files: [], impossible: [{ name: 'b' }] })
  })

  it('says that a write which was cut off cannot be undone, unless the graph knows what was there', () => {
    const cutOff = (changed: readonly string[]) =>
      plan({
        believed: () => record('a', 'run'),
        wrote: new Map([['1', 'a']]),
        changed: new Set(changed),
        observed: new Map([['a', seen('run')]]),
        actions: [{ action: action('1', { inverse: 'irreversible' }), ended: 1, cutOffAt: 'a' }],
      }).irreversible.map(({ action_id }) => action_id)
    expect([cutOff([]), cutOff(['a'])]).toEqual([['1'], []])
  })

  it('says once of a file why it is left, where the graph and an inverse both would have brought it back', () => {
    const inverse = fileOperation({ operation: 'delete', path: 'a', expected_digest: digestOf('run') })
    const { conflicts } = plan({
      restoration: { changes: [], conflicts: [{ kind: 'file', id: fileId('a'), revision: 7, message: 'changed' }] },
      believed: () => record('a', 'theirs'),
      wrote: new Map([[fileId('a'), 'a']]),
      observed: new Map([['a', seen('run')]]),
      actions: [{ action: action('1', { inverse }), ended: 1 }],
    })
    expect(conflicts).toEqual([{ what: 'file', name: 'a', reason: 'changed' }])
  })

  it('says once of a file that nobody tracks why it is left, however often it was written', () => {
    const back = (now: string, params: JsonObject) =>
      fileOperation({ path: 'a', expected_digest: digestOf(now), ...params })
    const { effects, conflicts } = plan({
      untracked: new Map([['a', { digest: digestOf('theirs') }]]),
      actions: [
        { action: action('1', { inverse: back('one', { operation: 'delete' }) }), ended: 1 },
        { action: action('2', { inverse: back('two', { operation: 'write', content: 'one' }) }), ended: 2 },
      ],
    })
    expect(effects).toEqual([])
    expect(conflicts).toEqual([{ what: 'file', name: 'a', reason: 'somebody else changed it on the disk since' }])
  })

  it('moves back what the run has moved into what is tracked, and does not take it away before', () => {
    const inverse = fileOperation({ operation: 'move', path: 'in', to: 'out' })
    const { files, effects, conflicts } = plan({
      changes: [{ kind: 'node_delete', node: 'file', id: '1' }],
      believed: () => record('in', 'run'),
      observed: new Map([['in', seen('run')]]),
      actions: [{ action: action('1', { inverse }), ended: 1 }],
    })
    expect([files, effects.length, conflicts]).toEqual([[], 1, []])
  })

  it('is another one, with another digest, when anything about it differs', () => {
    const of = (content: string) =>
      plan({
        changes: [update('1', { digest: digestOf(content) })],
        believed: () => record('a', 'run'),
        observed: new Map([['a', seen('run')]]),
      }).digest
    expect(of('x')).toBe(of('x'))
    expect(of('x')).not.toBe(of('y'))
    expect(isEmpty(plan({}))).toBe(true)
  })
})

it('of very many files takes away first, what lies in a folder before it, and then brings back, a folder before what lies in it', () => {
  const back = (path: string, before: FileReturn['before']): FileReturn => ({ path, now: null, before })
  const many = Array.from({ length: 500 }, (_, i) => back(`z${i}`, {} as FileRecord))
  const files = [
    back('b/c', {} as FileRecord),
    ...many,
    back('b', {} as FileRecord),
    back('a', null),
    back('a/b', null),
  ]
  const { portion, isLast } = portionOf(files, new Set(['z0']))
  expect(portion.slice(0, 4).map(({ path }) => path)).toEqual(['a/b', 'a', 'b', 'b/c'])
  expect([portion.length, isLast]).toEqual([500, false])
  expect(portionOf(many, new Set())).toMatchObject({ portion: many, isLast: true })
})
