import { DBOS } from '@dbos-inc/dbos-sdk'
import { versionOf } from './version.js'

// DBOS: a workflow is a function, a step a call whose result is stored before the next begins.

/** @type {import('../contestants/contestant.ts').Open} */
export const open = async ({ url, name }, work) => {
  const step = (id) => DBOS.runStep(async () => work(id), { name: id })
  const chain = DBOS.registerWorkflow(
    async (steps) => {
      for (let i = 0; i < steps; i++) await step(`s${i}`)
    },
    { name: 'chain' },
  )
  const fan = DBOS.registerWorkflow(
    async (width) => {
      await step('first')
      await Promise.all(Array.from({ length: width }, (_, i) => step(`m${i}`)))
      await step('last')
    },
    { name: 'fan' },
  )
  const asking = DBOS.registerWorkflow(
    async () => {
      await DBOS.recv('approve', 86_400)
      for (let i = 0; i < 5; i++) await step(`s${i}`)
    },
    { name: 'asking' },
  )
  DBOS.setConfig({
    name: 'bench',
    systemDatabaseUrl: url,
    systemDatabaseSchemaName: name,
    applicationVersion: 'bench',
    logLevel: 'error',
  })
  await DBOS.launch()
  let runs = 0
  const run = async (workflow, size) =>
    (await DBOS.startWorkflow(workflow, { workflowID: `${name}_${runs++}` })(size)).getResult()

  return {
    version: versionOf('@dbos-inc/dbos-sdk'),
    durability: "each step's result fsynced (synchronous_commit on)",
    chain: (steps) => run(chain, steps),
    fan: (width) => run(fan, width),
    async waiting(plans) {
      for (let i = 0; i < plans; i++) await DBOS.startWorkflow(asking, { workflowID: `${name}_${runs++}` })()
    },
    resume: () => DBOS.retrieveWorkflow(`${name}_0`).getResult(), // launching has taken it up
    close: () => DBOS.shutdown(),
  }
}
