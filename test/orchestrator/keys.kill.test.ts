import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { type ComposedRuntime, openRuntime } from '../../src/compose.ts'
import { openConfigured } from '../../src/configured-store.ts'
import { flowOf } from '../../src/orchestrator/named-flow.ts'
import type { RunHandle } from '../../src/orchestrator/run.ts'
import type { Json } from '../../src/protocol/json.ts'
import { copyStore } from '../../src/vsl/copy.ts'
import { openStore } from '../../src/vsl/vsl.ts'
import { type Child, child } from '../support/child.ts'
import { itOwns, privatePostgres } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { PLAIN } from './large-text.ts'

const [OLD, NEW] = [randomBytes(32), randomBytes(32)].map((key) => key.toString('base64')) as [string, string]
/** As the documents say how keys are changed: both everywhere, then turned round, one process after the other. */
const PHASES = [[OLD], [OLD, NEW], [NEW, OLD]] as const
const RUNS_EACH = 6
const PATIENT = 120_000

let workers: Child[] = []
afterEach(async () => {
  await Promise.all(workers.map((worker) => worker.kill()))
  workers = []
})

const calling = (name: string, args: Json) => ({ action_type: 'function', params: { name, args } })
/** Two steps that give, of which one says the same in every run, and one for each that asks whether it is whole. */
const flow = (name: string) =>
  flowOf({
    title: name,
    steps: {
      own: calling('give', name),
      same: calling('give', 'the same'),
      whole: calling('isWhole', { name, text: { $from: 'own' } }),
      again: calling('isWhole', { name: 'the same', text: { $from: 'same' } }),
    },
  })

async function start(vsl: string, keys: readonly string[]): Promise<Child> {
  const worker = child(new URL('keys-process.ts', import.meta.url), [vsl, JSON.stringify(keys)])
  workers.push(worker)
  await worker.line('up')
  return worker
}

async function loseNothing(vsl: string): Promise<void> {
  const submitted: { readonly plan_id: string; readonly whole: readonly string[] }[] = []
  const submit = async (desk: ComposedRuntime, name: string): Promise<RunHandle> => {
    const { ids, flow: given } = flow(name)
    submitted.push({ plan_id: given.plan.plan_id, whole: [ids.whole!, ids.again!] })
    return desk.submit(given)
  }
  const opened = (keys: readonly string[], at = vsl) =>
    openRuntime({ vsl: at, encryption_key: [...keys] }, { mine: new Set() })
  const complaints: string[] = []
  const pair = [await start(vsl, PHASES[0]), await start(vsl, PHASES[0])]
  const desks: ComposedRuntime[] = []
  for (const [phase, keys] of PHASES.entries()) {
    const desk = await opened(phase === 0 ? [OLD] : keys)
    desks.push(desk)
    for (const at of [0, 1]) {
      const before = pair[at]!.lines.length
      for (let i = 0; i < RUNS_EACH || pair[at]!.lines.length === before; i++) await submit(desk, `${phase} ${at} ${i}`)
      if (phase === 0) continue
      await pair[at]!.kill() // in the midst of something
      complaints.push(...pair[at]!.lines.filter((line) => line.startsWith('error')))
      pair[at] = await start(vsl, keys)
    }
    if (phase === 0) continue
    // The desk of the phase before has keys that do not open what is sealed from now on.
    await desks[phase - 1]!.close()
  }
  const last = desks.at(-1)!
  for (const { plan_id } of submitted) expect(await (await last.get(plan_id)).result()).toMatchObject({ success: true })
  for (const worker of pair) {
    worker.tell('close')
    await worker.line('closed')
    complaints.push(...worker.lines.filter((line) => line.startsWith('error')))
  }
  expect(complaints).toEqual([])
  expect(await last.project.verify()).toMatchObject({ findings: [] })
  await last.close()

  const target = `sqlite:${join(tempFolder(), 'copy.db')}`
  const [from, to] = [
    await openConfigured({ vsl, encryption_key: [NEW, OLD] }),
    await openConfigured({ vsl: target, encryption_key: [NEW, OLD] }),
  ]
  await copyStore(from, to, { verify: true })
  await from.close()
  await to.close()

  for (const at of [vsl, target]) {
    const inner = await openStore(at)
    for await (const pair of inner.scan('')) expect(JSON.stringify(pair[1])).toContain('A256GCM')
    for await (const pair of inner.scan('', { own: true })) expect(JSON.stringify(pair[1])).toContain('A256GCM')
    for await (const { body } of inner.feed()) expect(JSON.stringify(body)).toContain('A256GCM')
    for await (const digest of inner.blobs())
      expect(Buffer.from((await inner.getBlob(digest))!).includes(PLAIN)).toBe(false)
    await inner.close()
  }
  const worker = await start(target, [NEW])
  const after = await opened([NEW], target)
  expect(await (await submit(after, 'after')).result()).toMatchObject({ success: true })
  for (const { plan_id, whole } of submitted) {
    const { outputs } = await (await after.get(plan_id)).result()
    expect(whole.map((step) => outputs[step])).toEqual([true, true])
  }
  expect(await after.project.verify()).toMatchObject({ findings: [] })
  worker.tell('close')
  await worker.line('closed')
  await after.close()
}

describe('keys that are changed while two processes work, and are killed in the midst of it', () => {
  it('lose nothing on SQLite', { timeout: PATIENT }, () => loseNothing(`sqlite:${join(tempFolder(), 'state.db')}`))

  itOwns(privatePostgres)('lose nothing on Postgres', ({ url }) => loseNothing(url))
})
