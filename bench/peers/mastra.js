import { join } from 'node:path'
import { createStep, createWorkflow } from '@mastra/core/workflows'
import { Mastra } from '@mastra/core/mastra'
import { LibSQLStore } from '@mastra/libsql'
import { PostgresStore } from '@mastra/pg'
import { z } from 'zod'
import { versionOf } from './version.js'

// Mastra's workflows on its own stores; the newest that runs on Node 20. A run's snapshot is stored after every step, whole.

/** @type {import('../contestants/contestant.ts').Open} */
export const open = async (place, work) => {
  const { storage, durability } = await storageOf(place)
  const shape = z.object({ done: z.number() })
  const step = (id) =>
    createStep({
      id,
      inputSchema: z.any(),
      outputSchema: shape,
      execute: async () => {
        work(id)
        return { done: 1 }
      },
    })
  const started = (id) => createWorkflow({ id, inputSchema: shape, outputSchema: shape })
  const known = (workflow) =>
    new Mastra({ workflows: { [workflow.id]: workflow }, logger: false, ...(storage && { storage }) }).getWorkflow(
      workflow.id,
    )
  const workflows = {
    chain: once((steps) => {
      let workflow = started(`chain-${steps}`)
      for (let i = 0; i < steps; i++) workflow = workflow.then(step(`s${i}`))
      return known(workflow.commit())
    }),
    fan: once((width) => {
      const middle = Array.from({ length: width }, (_, i) => step(`m${i}`))
      return known(started(`fan-${width}`).then(step('first')).parallel(middle).then(step('last')).commit())
    }),
  }
  async function run(workflow) {
    const { status, error } = await (await workflow.createRunAsync()).start({ inputData: { done: 0 } })
    if (status !== 'success') throw new Error(`the run ended ${status}: ${error?.message ?? error}`)
  }

  return {
    version: versionOf('@mastra/core'),
    durability,
    chain: (steps) => run(workflows.chain(steps)),
    fan: (width) => run(workflows.fan(width)),
    close: async () => storage?.close?.(),
  }
}

function once(make) {
  const made = new Map()
  return (size) => {
    if (!made.has(size)) made.set(size, make(size))
    return made.get(size)
  }
}

async function storageOf({ store, url, folder, name }) {
  if (store === 'memory') return { durability: 'none' }
  if (store === 'postgres') {
    const storage = new PostgresStore({ connectionString: url, schemaName: name })
    await storage.init()
    return { storage, durability: 'snapshot fsynced after each step (synchronous_commit on)' }
  }
  const storage = new LibSQLStore({ url: `file:${join(folder, 'mastra.db')}` })
  await storage.init()
  return { storage, durability: 'snapshot after each step, not fsynced: it sets synchronous NORMAL itself' }
}
