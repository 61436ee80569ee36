import { join } from 'node:path'
import Database from 'libsql'
import { assign, createActor, fromPromise, setup, toPromise } from 'xstate'
import { versionOf } from './version.js'

// XState keeps no store: on SQLite its users write the persisted snapshot themselves, here after every transition.
// A step is a state that invokes a promise; the fan-out is one state that invokes all of them (a parallel state of 1,000 regions takes minutes).

/** @type {import('../contestants/contestant.ts').Open} */
export const open = async ({ store, folder, name }, work) => {
  const snapshots = store === 'sqlite' ? snapshotTable(join(folder, 'xstate.db')) : undefined
  const machines = machinesOf(work)
  let runs = 0

  async function run(machine, id, snapshot) {
    const actor = createActor(machine, { ...(snapshot && { snapshot }) })
    if (snapshots) actor.subscribe(() => snapshots.put(id, JSON.stringify(actor.getPersistedSnapshot())))
    const end = toPromise(actor)
    actor.start()
    await end
  }

  return {
    version: versionOf('xstate'),
    durability: snapshots
      ? 'snapshot fsynced after each transition, when the next step has begun (WAL, synchronous FULL)'
      : 'none',
    chain: (steps) => run(machines.chain(steps), `${name}_${runs++}`),
    fan: (width) => run(machines.fan(width), `${name}_${runs++}`),
    async waiting(plans) {
      const actors = Array.from({ length: plans }, () => createActor(machines.asking(5)).start())
      waitingFor.push(...actors)
    },
    async resume(steps) {
      await run(machines.chain(steps), `${name}_0`, JSON.parse(snapshots.get(`${name}_0`)))
    },
    close: async () => snapshots?.close(),
  }
}

const waitingFor = []

function machinesOf(work) {
  const machine = setup({ actors: { step: fromPromise(async ({ input }) => work(input)) } })
  const step = (id, target) => ({ invoke: { src: 'step', input: String(id), onDone: target } })
  const chainOf = (steps) => ({
    ...Object.fromEntries(Array.from({ length: steps }, (_, i) => [`s${i}`, step(i, `s${i + 1}`)])),
    [`s${steps}`]: { type: 'final' },
  })
  return {
    chain: once((steps) => machine.createMachine({ initial: 's0', states: chainOf(steps) })),
    fan: once((width) =>
      machine.createMachine({
        context: { left: 0 },
        initial: 'first',
        states: {
          first: step('first', 'middle'),
          middle: {
            entry: assign({ left: width }),
            invoke: Array.from({ length: width }, (_, i) => ({
              id: `m${i}`,
              src: 'step',
              input: `m${i}`,
              onDone: { actions: assign({ left: ({ context }) => context.left - 1 }) },
            })),
            always: { guard: ({ context }) => context.left === 0, target: 'last' },
          },
          last: step('last', 'end'),
          end: { type: 'final' },
        },
      }),
    ),
    asking: once((steps) =>
      machine.createMachine({ initial: 'asked', states: { asked: { on: { approve: 's0' } }, ...chainOf(steps) } }),
    ),
  }
}

function once(make) {
  const made = new Map()
  return (size) => {
    if (!made.has(size)) made.set(size, make(size))
    return made.get(size)
  }
}

function snapshotTable(path) {
  const db = new Database(path)
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  db.exec('CREATE TABLE IF NOT EXISTS snapshot (id TEXT PRIMARY KEY, body TEXT NOT NULL)')
  const put = db.prepare('INSERT INTO snapshot VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body')
  const get = db.prepare('SELECT body FROM snapshot WHERE id = ?')
  return { put: (id, body) => put.run([id, body]), get: (id) => get.get([id]).body, close: () => db.close() }
}
