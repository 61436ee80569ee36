/**
 * A chain of 1,000 steps whose process kills itself with SIGKILL in the middle of step 500: how long after the next process was started the first
 * step runs, and how many steps ran again whose end had been recorded.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Entrant, type Ground, onGround } from './contest/contest.ts'
import { STORE_TITLES } from './contest/entrants.ts'
import { member } from './contest/member.ts'
import { quick, rounds } from './contest/settings.ts'
import type { StoreName } from './contestants/contestant.ts'
import { type Bar, figure, median, tell } from './report.ts'

const STEPS = 1_000
const KILLED_AT = 500
/** More than rounds elsewhere, since each is short; odd, so that one is in the middle. */
const KILLS = 2 * rounds - 1
const ENTRANTS: Partial<Record<StoreName, readonly Entrant[]>> = {
  sqlite: [{ name: 'ours' }, { name: 'xstate' }, { name: 'langgraph' }],
  postgres: [{ name: 'ours' }, { name: 'dbos' }, { name: 'langgraph' }],
  redis: [{ name: 'ours' }, ...(quick ? [] : [{ name: 'bullmq' }])], // BullMQ waits for a minute
  own: [{ name: 'restate' }],
}
/** One that needs longer than this to come back is killed once only. */
const SLOW_MS = 10_000

interface Life {
  readonly firstStepMs: number
  readonly wholeMs: number
  /** Steps before the killed one that ran a second time. */
  readonly again: number
  readonly version: string
}

await onGround(async (ground) => {
  for (const [store, entrants] of Object.entries(ENTRANTS) as [StoreName, readonly Entrant[]][]) {
    const lives = new Map(entrants.map(({ name }) => [name, [] as Life[]]))
    const failed = new Map<string, string>()
    for (let round = 0; round < KILLS; round++)
      for (const entrant of entrants) {
        const before = lives.get(entrant.name)!
        if (failed.has(entrant.name) || before.some(({ firstStepMs }) => firstStepMs > SLOW_MS)) continue
        await killedAndResumed(ground, store, entrant).then(
          (life) => before.push(life),
          (error: Error) => failed.set(entrant.name, error.message),
        )
      }
    const rows = [...lives].map(([name, each]) => [name, rowOf(each, failed.get(name))] as const)
    const bars = [...lives].flatMap(([name, each]) => barOf(name, each))
    tell(`Back after kill -9, ${STORE_TITLES[store]}`, Object.fromEntries(rows), undefined, {
      unit: 'milliseconds from the start of the process to its first step, fewer are better',
      bars,
    })
  }
})

async function killedAndResumed(ground: Ground, store: StoreName, entrant: Entrant): Promise<Life> {
  const place = await ground.place(store, entrant)
  const path = join(place.folder, 'ledger.ndjson')
  writeFileSync(path, '')
  const first = await member(entrant.name, place, { ledger: { path, dieAt: KILLED_AT } })
  await first.run({ kind: 'chain', size: STEPS }).then(
    () => Promise.reject(new Error('it came to its end without having run step 500')),
    () => first.exited,
  )
  const before = stepsIn(path)
  if (before.length !== KILLED_AT) throw new Error(`it died after ${before.length} steps, not ${KILLED_AT}`)
  const began = Number(process.hrtime.bigint()) / 1e6
  const second = await member(entrant.name, place, { ledger: { path } })
  await second.run({ kind: 'resume', size: STEPS })
  await second.close()
  const after = stepsIn(path).slice(KILLED_AT)
  const ended = new Set(before.slice(0, -1).map(({ step }) => step)) // the last had begun and was cut off
  const all = new Set([...before, ...after].map(({ step }) => step))
  if (all.size !== STEPS) throw new Error(`${STEPS - all.size} steps never ran`)
  return {
    firstStepMs: after[0]!.at - began,
    wholeMs: after.at(-1)!.at - began,
    again: after.filter(({ step }) => ended.has(step)).length,
    version: second.version,
  }
}

function stepsIn(path: string): readonly { readonly step: string; readonly at: number }[] {
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
}

function rowOf(lives: readonly Life[], failed: string | undefined) {
  if (lives.length === 0) return { 'ms to the first step': `failed: ${failed ?? 'no round'}` }
  const first = lives.map(({ firstStepMs }) => firstStepMs)
  return {
    'ms to the first step': figure(median(first)),
    'fastest..slowest': `${figure(Math.min(...first))}..${figure(Math.max(...first))}`,
    'ms to the end': figure(median(lives.map(({ wholeMs }) => wholeMs))),
    'recorded steps run again': Math.max(...lives.map(({ again }) => again)),
    kills: lives.length,
    version: lives[0]!.version,
  }
}

function barOf(name: string, lives: readonly Life[]): Bar[] {
  if (lives.length === 0) return []
  const first = lives.map(({ firstStepMs }) => firstStepMs)
  const spread = [Math.min(...first), Math.max(...first)] as const
  return [{ label: name, value: median(first), spread, kind: name === 'ours' ? 'ours' : 'peer' }]
}
