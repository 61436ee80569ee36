import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { openRuntime } from '../../src/compose.ts'
import type { Json } from '../../src/protocol/json.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { mplpHere } from './here.ts'

/** A store that somebody has written, in one JSON file, and a flow. */
const CONFIG = `
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
const file = join(import.meta.dirname ?? '.', 'cells.json')
const cells = () => (existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {})
export default {
  vsl: () => ({
    get: async (key) => cells()[key],
    set: async (key, value) => writeFileSync(file, JSON.stringify({ ...cells(), [key]: value })),
  }),
  functions: { noop: () => 'done' },
}
`

it('is worked on by every command where a config opens it, and can be copied from', { timeout: 60_000 }, async () => {
  const folder = tempFolder()
  writeFileSync(join(folder, 'mplp.config.mjs'), CONFIG)
  const steps = { one: { action_type: 'function', params: { name: 'noop' } } }
  writeFileSync(join(folder, 'flow.json'), JSON.stringify({ title: 'Here', steps }))
  const mplp = async (...args: string[]) => {
    const { code, out, err } = await mplpHere(folder, args)
    expect({ code, err: code === 0 ? '' : err }).toEqual({ code: 0, err: '' })
    return out
  }
  const { plan_id } = JSON.parse(await mplp('run', 'flow.json', '--json'))
  expect(await mplp('list', '--ended')).toContain(plan_id)
  expect(await mplp('show', plan_id)).toContain('completed')
  expect(await mplp('config', 'print')).toContain('(code)')
  await mplp('doctor')
  await mplp('store', 'verify')
  await mplp('store', 'copy', 'file:./copy')
  expect(await mplp('list', '--ended', '--store', 'file:./copy')).toContain(plan_id)
})

it('is closed with the runtime that had it opened', async () => {
  let closed = 0
  const store = memoryBackend()
  const close = async () => {
    closed++
    await store.close()
  }
  const runtime = await openRuntime({ vsl: async () => ({ ...store, close }) })
  await runtime.close()
  expect(closed).toBe(1)
})

it('is closed once, also where it only has get and set, and a way to close it', async () => {
  let closed = 0
  const cells = new Map<string, Json>()
  const bare = {
    get: async (key: string) => cells.get(key),
    set: async (key: string, value: Json) => void cells.set(key, value),
    close: async () => void closed++,
  }
  const runtime = await openRuntime({ vsl: () => bare })
  expect(closed).toBe(0)
  await runtime.close()
  await runtime.store.close()
  expect(closed).toBe(1)
  cells.set('mplp/store', { version: 0 })
  await expect(openRuntime({ vsl: () => bare })).rejects.toThrow()
  expect(closed).toBe(2)
})

it.each([
  ['nothing', undefined],
  ['an object', {}],
  ['the name of one', 'memory:'],
  ['half of a bare one', { get: () => 1 }],
  ['a Backend without leases', { ...memoryBackend(), acquire: undefined }], // made whole as a bare one it would hold something else
])('is refused when it is none, but %s', async (_, opened) => {
  await expect(openRuntime({ vsl: () => opened as never })).rejects.toMatchObject({
    code: 'invalid_input',
    problems: [expect.objectContaining({ path: 'vsl', rule: 'store' })],
  })
})

it.each(['throw new Error("no\\nroute")', 'return Promise.reject(new Error("no\\nroute"))'])(
  'is away where it cannot be opened, which is told in one line, and as no bug of ours: %s',
  async (fails) => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'mplp.config.mjs'), `export default { vsl() { ${fails} } }`)
    const { code, err } = await mplpHere(folder, ['list'])
    expect({ code, err }).toEqual({
      code: 1,
      err: 'mplp: the store cannot be reached: it could not be opened: no route\n',
    })
    const told = (await mplpHere(folder, ['list', '--json'])).err
    expect(JSON.parse(told)).toMatchObject({ error: { code: 'unavailable', retryable: true } })
  },
)
