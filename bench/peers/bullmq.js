import { FlowProducer, Queue, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { versionOf } from './version.js'

// BullMQ: a step is a job; a job waits for its children. A tree has no step that two others wait for, so the first step of the fan-out is a job of
// its own, and whoever awaits it adds the rest.

/** @type {import('../contestants/contestant.ts').Open} */
export const open = async ({ url, name }, work) => {
  const connection = () => new Redis(url, { maxRetriesPerRequest: null })
  const prefix = `{${name}}`
  const ended = new Map()
  const failed = new Map()
  const worker = new Worker('steps', async (job) => work(job.data.step), {
    connection: connection(),
    prefix,
    concurrency: 256,
  })
  worker.on('completed', (job) => ended.get(job.id)?.())
  worker.on('failed', (job, error) => failed.get(job?.id)?.(error))
  worker.on('error', () => undefined) // a dropped connection: the job in hand tells
  const flows = new FlowProducer({ connection: connection(), prefix })
  const queue = new Queue('steps', { connection: connection(), prefix })
  await worker.waitUntilReady()
  let runs = 0

  const completed = (id) =>
    new Promise((resolve, reject) => {
      ended.set(id, resolve)
      failed.set(id, reject)
    }).finally(() => ended.delete(id) && failed.delete(id))
  const job = (id, step, children) => ({
    name: 'step',
    queueName: 'steps',
    data: { step },
    ...(id && { opts: { jobId: id } }),
    ...(children && { children }),
  })
  async function run(id, tree) {
    const end = completed(id)
    await flows.add(tree)
    await end
  }

  return {
    version: versionOf('bullmq'),
    durability: "each job's end fsynced (appendfsync always)",
    chain(steps) {
      const id = `run-${runs++}`
      let tree = job(steps === 1 ? id : undefined, 's0')
      for (let i = 1; i < steps; i++) tree = job(i === steps - 1 ? id : undefined, `s${i}`, [tree])
      return run(id, tree)
    },
    async fan(width) {
      const id = `run-${runs++}`
      await run(`${id}-first`, job(`${id}-first`, 'first'))
      const middle = Array.from({ length: width }, (_, i) => job(undefined, `m${i}`))
      await run(id, job(id, 'last', middle))
    },
    async resume() {
      if ((await (await queue.getJob('run-0')).getState()) !== 'completed') await completed('run-0')
    },
    async close() {
      await worker.close(true)
      await flows.close()
      await queue.close()
    },
  }
}
