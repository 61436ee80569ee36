import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { ownFolder, releaseAll } from '../../test/support/processes.ts'
import { servers } from '../../test/support/start-servers.ts'
import type { Extra, Place, StoreName } from '../contestants/contestant.ts'
import type { Measured, Task } from '../contestants/host.ts'
import { build } from './build.ts'
import { type Member, type MemberOptions, member } from './member.ts'
import { startRestate } from './restate-server.ts'
import { BUDGET_MS, LEAST_WARM_MS, MOST_WARM_MS, rounds, WARM_UPS } from './settings.ts'

/** Who takes part, by the name of its module; the same module twice needs names of its own. */
export interface Entrant {
  readonly name: string
  readonly module?: string
  readonly extra?: Extra
  /** `own` for one that brings its own store and is compared all the same. */
  readonly store?: StoreName
}

/** What one contestant came to: its rounds, or why it has none. */
export interface Score {
  readonly name: string
  readonly version: string
  readonly durability: string
  readonly rounds: readonly Measured[]
  readonly failed?: string
}

export interface Ground {
  /** A place for a contestant that nobody had before. Throws when the store's server is not here. */
  place(store: StoreName, entrant: Entrant): Promise<Place>
  /** All take turns, round by round, and warm up before each; one that fails is out and says why. */
  contest(store: StoreName, entrants: readonly Entrant[], task: Task, more?: ContestOptions): Promise<readonly Score[]>
}

export interface ContestOptions extends MemberOptions {
  /** Not counted; the task itself when absent, nothing when null. */
  readonly warmUp?: Task | null
  readonly rounds?: number
}

/** Compiles, starts the servers that are asked for, and stops everything at the end, however it ends. */
export async function onGround(work: (ground: Ground) => Promise<void>): Promise<void> {
  await build()
  const set = servers()
  const folder = ownFolder('bench')
  let places = 0
  let restate: Promise<string> | undefined
  const ground: Ground = {
    async place(asked, { extra, store = asked }) {
      const name = `${set.run}_${++places}`
      const own = join(folder, name)
      mkdirSync(own)
      const given = { store, folder: own, name, ...(extra && { extra }) }
      if (store === 'own') {
        restate ??= startRestate(folder)
        return { ...given, url: await restate }
      }
      if (store !== 'postgres' && store !== 'redis') return { ...given, url: '' }
      const meeting = await set.need(store)
      if ('missing' in meeting) throw new Error(meeting.missing)
      return { ...given, url: meeting.url }
    },
    async contest(store, entrants, task, options = {}) {
      const players = await Promise.all(entrants.map((entrant) => enter(ground, store, entrant, options)))
      await takeTurns(players, task, options)
      for (const { member } of players) await member?.close()
      return players.map(({ member: _, spent: __, ...score }) => score)
    },
  }
  try {
    await work(ground)
  } finally {
    await set.stop()
    await releaseAll()
  }
}

interface Player extends Score {
  member: Member | undefined
  rounds: Measured[]
  failed?: string
  spent: number
}

async function enter(ground: Ground, store: StoreName, entrant: Entrant, options: MemberOptions): Promise<Player> {
  const { name } = entrant
  const player = { name, version: '', durability: '', rounds: [], spent: 0 }
  try {
    const entered = await member(entrant.module ?? name, await ground.place(store, entrant), options)
    return { ...player, member: entered, version: entered.version, durability: entered.durability }
  } catch (error) {
    return { ...player, member: undefined, failed: (error as Error).message }
  }
}

async function takeTurns(players: readonly Player[], task: Task, options: ContestOptions): Promise<void> {
  const { warmUp = task } = options
  for (let round = 0; round < (options.rounds ?? rounds); round++)
    for (const player of players) {
      if (player.spent >= BUDGET_MS) continue
      if (warmUp) await warmedUp(player, warmUp)
      const began = performance.now()
      const measured = await turn(player, task)
      if (measured) player.rounds.push(measured)
      player.spent += performance.now() - began
    }
}

/** Before every turn: while the others had theirs, the engine has thrown away most of what it had compiled. */
async function warmedUp(player: Player, task: Task): Promise<void> {
  const began = performance.now()
  const since = () => performance.now() - began
  for (let time = 0; player.member && (time < WARM_UPS || since() < LEAST_WARM_MS) && since() < MOST_WARM_MS; time++)
    await turn(player, task)
}

/** `undefined` when it has failed, now or before. */
async function turn(player: Player, task: Task): Promise<Measured | undefined> {
  try {
    return await player.member?.run(task)
  } catch (error) {
    player.failed = (error as Error).message
    await player.member?.close()
    player.member = undefined
    return undefined
  }
}
