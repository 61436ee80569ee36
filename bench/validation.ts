import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Ajv } from 'ajv'
import addFormats from 'ajv-formats'
import { build, built } from './contest/build.ts'
import { tell } from './report.ts'

// What validation costs: starting up with it, and a Plan of ten steps, beside bare Node and bare Ajv in the same run.
// npm run bench -- validation

const root = join(import.meta.dirname, '..')
await build()
const entry = built('src/protocol/protocol.ts')
const protocol: typeof import('../src/protocol/protocol.ts') = await import(pathToFileURL(entry).href)

const clock = protocol.manualClock()
const [plan_id, context_id, ...ids] = Array.from({ length: 12 }, clock.uuid) as [string, string, ...string[]]
const plan = {
  meta: { protocol_version: '1.0.0', schema_version: '1.0.0', created_at: '2026-01-01T00:00:00.000000Z' },
  plan_id,
  context_id,
  title: 'Ten steps',
  objective: 'Know what a validation costs',
  status: 'draft',
  steps: ids.map((step_id, order_index) => ({
    step_id,
    description: `Step ${order_index}, which follows the one before it`,
    status: 'pending',
    dependencies: ids.slice(Math.max(0, order_index - 1), order_index),
    agent_role: 'agent',
    order_index,
  })),
}

const FIRST_PLAN = `import { validate } from ${JSON.stringify(pathToFileURL(entry).href)}; validate('plan', ${JSON.stringify(plan)})`
const starts = { node: [] as number[], protocol: [] as number[] }
for (let round = 0; round < 21; round++) {
  starts.node.push(started('0'))
  starts.protocol.push(started(FIRST_PLAN))
}

const bare = bareAjv('plan.schema.json')
const rates = { ours: 0, bare: 0 }
for (let round = 0; round < 5; round++) {
  rates.ours = Math.max(
    rates.ours,
    rate(() => protocol.validate('plan', plan)),
  )
  rates.bare = Math.max(
    rates.bare,
    rate(() => bare(plan)),
  )
}

const [node, first] = [Math.min(...starts.node), Math.min(...starts.protocol)] // the least disturbed of each
tell('Starting with validation', {
  'start Node': { ms: round1(node) },
  'start Node, import protocol, validate a first Plan': { ms: round1(first) },
  'the difference (goal: below 80)': { ms: round1(first - node) },
})
tell('Validating a Plan of ten steps', {
  'Plan of 10 steps, validate()': { 'per second': Math.round(rates.ours) },
  'Plan of 10 steps, bare Ajv': { 'per second': Math.round(rates.bare) },
  'bare Ajv / validate() (goal: at most 1.3, or 100,000 per second)': { 'per second': round1(rates.bare / rates.ours) },
})

function started(code: string): number {
  const before = performance.now()
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8' })
  if (status !== 0) throw new Error(stderr)
  return performance.now() - before
}

function bareAjv(path: string): (value: unknown) => unknown {
  const folder = join(root, 'schemas/mplp')
  const ajv = new Ajv()
  addFormats.default(ajv)
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.json'),
  )) {
    ajv.addSchema({ ...JSON.parse(readFileSync(join(folder, file), 'utf8')), $id: `file:///${file}` })
  }
  const validate = ajv.getSchema(`file:///${path}`)
  if (validate === undefined || validate(plan) !== true) throw new Error('bare Ajv does not accept the plan')
  return validate
}

function rate(call: () => unknown): number {
  const before = performance.now()
  for (let n = 0; n < 50_000; n++) call()
  return 50_000 / ((performance.now() - before) / 1000)
}

function round1(value: number): number {
  return Math.round(value * 10) / 10
}
