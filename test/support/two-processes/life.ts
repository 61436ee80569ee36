import { actionLayer } from '../../../src/ael/ael.ts'
import { type FunctionSpec, functionAdapter } from '../../../src/ael/function.ts'
import { createRuntime, type Runtime } from '../../../src/orchestrator/runtime.ts'
import type { Clock } from '../../../src/protocol/clock.ts'
import { ActionError, NotFound } from '../../../src/protocol/errors.ts'
import type { Backend } from '../../../src/vsl/backend.ts'
import { type Port, ported, portOf } from '../port.ts'
import { note, type World } from './world.ts'

/** One process, from its start until it is killed or has closed. */
export interface Life {
  readonly name: string
  readonly port: Port
  /** Once it is open. */
  runtime: Runtime | undefined
  /** Has asked for something and not heard yet. */
  busy: boolean
  /** Writes that have not been answered. */
  writes: number
  /** The plan it is submitting. */
  submits: string | undefined
  /** For how many rounds it has been closing, unless it is not. */
  closing: number | undefined
  frozenUntil: number
  /** Functions that it does not have. */
  readonly lacks: readonly string[]
}

/** How long the context's owner may be silent. Short, so that a life may lose it often. */
export const LEASE_MS = 2_000
/** Rounds in which a runtime must have closed. */
const MOST_CLOSING = 4_000

export function begin(world: World, name: string): Life {
  const life: Life = {
    name,
    port: portOf(),
    runtime: undefined,
    busy: false,
    writes: 0,
    submits: undefined,
    closing: undefined,
    frozenUntil: 0,
    lacks: name === 'right' ? world.lacks : [],
  }
  const failed = (what: string) => (error: unknown) => {
    if (!life.port.dead) world.faults.push(`${what}: ${error}`)
  }
  const clock = clockOf(world.clock, life.port)
  createRuntime({
    store: counted(ported(world.witness.seen(world.store, life), life.port), life),
    layer: actionLayer({ clock, adapters: [functionAdapter(functionsOf(world, life))] }),
    clock,
    leaseTtlMs: LEASE_MS,
    patrolMs: 200,
    onError: (error) => isLeaving(life, error) || failed('nobody was told')(error),
    ...(world.switched && { switched: world.switched }),
  }).then((runtime) => {
    life.runtime = runtime
  }, failed('createRuntime'))
  return life
}

/** Says that it leaves a run to the other, which has what it lacks. */
const isLeaving = ({ lacks }: Life, error: unknown): boolean =>
  error instanceof NotFound && error.what === 'function' && lacks.includes(error.id)

/** Once a round: may kill, freeze, thaw or close it. Returns who lives under its name from now on. */
export function fate(world: World, life: Life): Life {
  const { clock, luck, faults, isCalm, temper } = world
  const { port } = life
  if (port.dead) return begin(world, life.name)
  if (port.frozen && (isCalm() || clock.now() >= life.frozenUntil)) port.thaw()
  if (life.closing !== undefined && !port.frozen && ++life.closing > MOST_CLOSING) {
    faults.push('a runtime does not close')
    port.die()
  }
  if (world.witness.goesBack() && luck.random() < temper.diesGoingBack) kill(world, life)
  if (isCalm()) return life
  const { dies, freezes, closes, stalls } = temper.fates
  if (luck.random() < dies) kill(world, life)
  else if (luck.random() < freezes) freeze(world, life, luck.random() * 2 * LEASE_MS)
  else if (life.writes > 0 && luck.random() < stalls) freeze(world, life, (1 + luck.random()) * LEASE_MS)
  else if (luck.random() < closes) close(world, life)
  return life
}

function kill(world: World, life: Life): void {
  note(world, life, 'dies')
  world.witness.frozen(life)
  life.port.die()
}

function freeze(world: World, life: Life, howLong: number): void {
  const ms = Math.floor(howLong)
  note(world, life, `freezes for ${ms} ms`)
  life.frozenUntil = world.clock.now() + ms
  life.port.freeze()
  world.witness.frozen(life)
}

function close(world: World, life: Life): void {
  if (!life.runtime || life.closing !== undefined || life.port.frozen) return
  note(world, life, 'closes')
  life.closing = 0
  life.runtime.close().then(
    () => life.port.die(),
    (error) => life.port.dead || world.faults.push(`close: ${error}`),
  )
}

/** A store that is known to be written to. */
const counted = (store: Backend, life: Life): Backend => ({
  ...store,
  async commit(write) {
    life.writes++
    await store.commit(write).finally(() => life.writes--)
  },
})

/** The world's clock, but who is frozen or dead does not wake. */
const clockOf = (clock: Clock, port: Port): Clock => ({
  ...clock,
  async sleep(ms, signal) {
    await clock.sleep(ms, signal)
    await port.awake()
  },
})

function functionsOf(world: World, life: Life): { readonly [name: string]: FunctionSpec } {
  const does =
    (act: () => string): FunctionSpec =>
    (_, { idempotency_key, signal }) => {
      const arrives = world.witness.called(life, idempotency_key, signal)
      return life.port.pass(() => {
        arrives()
        return act()
      })
    }
  const functions = {
    work: does(() => 'done'),
    undo: does(() => 'undone'),
    boom: does(() => {
      throw new Error('boom')
    }),
    flaky: does(() => {
      if (world.flakes++ < 2) throw new ActionError('action_failed', 'not yet', { retryable: true })
      return 'done'
    }),
  }
  return Object.fromEntries(Object.entries(functions).filter(([name]) => !life.lacks.includes(name)))
}
