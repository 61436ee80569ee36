/**
 * `npm run bench:profile -- name [store] [contestant]`: one workload (chain, fan-out or plans) under the processor's profiler, after it has warmed up.
 * Leaves a `.cpuprofile` and a flame graph in bench/profiles, and prints where the time went.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { onGround } from './contest/contest.ts'
import { type CpuProfile, flameSvg, hottest } from './contest/flame.ts'
import { member } from './contest/member.ts'
import { rounds } from './contest/settings.ts'
import type { StoreName } from './contestants/contestant.ts'
import type { Task } from './contestants/host.ts'
import { figure } from './report.ts'

const TASKS: { readonly [name: string]: Task } = {
  chain: { kind: 'chain', size: 1_000 },
  'fan-out': { kind: 'fan', size: 1_000 },
  plans: { kind: 'plans', size: 5, count: 500, atOnce: 50 },
}
const STORES: readonly StoreName[] = ['memory', 'sqlite', 'postgres', 'redis', 'own']

const [name = 'chain', store = 'memory', contestant = 'ours'] = process.argv.slice(2)
const task = TASKS[name]
if (!task || !STORES.includes(store as StoreName)) {
  console.error(`say one of ${Object.keys(TASKS).join(', ')}, then one of ${STORES.join(', ')}`)
  process.exit(64)
}
const folder = join(import.meta.dirname, 'profiles')
mkdirSync(folder, { recursive: true })

await onGround(async (ground) => {
  const place = await ground.place(store as StoreName, { name: contestant })
  const profiled = await member(contestant, place, { flags: ['--cpu-prof', `--cpu-prof-dir=${place.folder}`] })
  for (let round = 0; round < 2 * rounds; round++) await profiled.run(task)
  await profiled.close()
  const written = readdirSync(place.folder).find((file) => file.endsWith('.cpuprofile'))
  if (written === undefined) throw new Error('the process has left no profile')
  const path = join(folder, `${name}-${store}-${contestant}.cpuprofile`)
  renameSync(join(place.folder, written), path)
  const profile = JSON.parse(readFileSync(path, 'utf8')) as CpuProfile
  const flame = path.replace(/cpuprofile$/, 'svg')
  writeFileSync(flame, flameSvg(`${name} ${store}, ${contestant}`, profile))
  const rows = hottest(profile, 10).map(({ where, selfMs, share }) => [
    where,
    { ms: figure(selfMs), share: `${figure(share * 100)} %` },
  ])
  console.log(`the ten hottest functions by their own time, ${name} on ${store}`)
  console.table(Object.fromEntries(rows))
  console.log(`${relative(process.cwd(), path)} (for the developer tools), ${relative(process.cwd(), flame)}`)
})
