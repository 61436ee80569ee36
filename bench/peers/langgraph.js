import { join } from 'node:path'
import { Annotation, END, interrupt, MemorySaver, START, StateGraph } from '@langchain/langgraph'
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres'
import { SqliteSaver } from '@langchain/langgraph-checkpoint-sqlite'
import { versionOf } from './version.js'

// LangGraph.js with its own checkpointers; durability 'sync' where they store, so that a step is kept before the next begins.

/** @type {import('../contestants/contestant.ts').Open} */
export const open = async (place, work) => {
  const { saver, durability, close } = await saverOf(place)
  const graphs = graphsOf(work, saver)
  let threads = 0
  const configOf = (id, steps) => ({
    configurable: { thread_id: `${place.name}_${id}` },
    recursionLimit: steps + 10,
    ...(place.store !== 'memory' && { durability: 'sync' }),
  })
  async function run(graph, steps) {
    const config = configOf(threads++, steps)
    await graph.invoke({ done: 0 }, config)
    if (place.store === 'memory') await saver.deleteThread(config.configurable.thread_id) // it would keep every state for ever
  }

  return {
    version: versionOf('@langchain/langgraph'),
    durability,
    chain: (steps) => run(graphs.chain(steps), steps),
    fan: (width) => run(graphs.fan(width), width),
    async waiting(plans) {
      const graph = graphs.asking(5)
      for (let i = 0; i < plans; i++) await graph.invoke({ done: 0 }, configOf(threads++, 10))
    },
    async resume(steps) {
      await graphs.chain(steps).invoke(null, configOf(0, steps))
    },
    close,
  }
}

const State = Annotation.Root({ done: Annotation({ reducer: (sum, more) => sum + more, default: () => 0 }) })

function graphsOf(work, checkpointer) {
  const step = (id) => async () => {
    work(String(id))
    return { done: 1 }
  }
  const chained = (graph, steps, from) => {
    for (let i = 0; i < steps; i++) graph.addNode(`s${i}`, step(i)).addEdge(i === 0 ? from : `s${i - 1}`, `s${i}`)
    return graph.addEdge(`s${steps - 1}`, END).compile({ checkpointer })
  }
  return {
    chain: once((steps) => chained(new StateGraph(State), steps, START)),
    fan: once((width) => {
      const graph = new StateGraph(State).addNode('first', step('first')).addNode('last', step('last'))
      const middle = Array.from({ length: width }, (_, i) => `m${i}`)
      graph.addEdge(START, 'first')
      // One edge each: all of them run in one superstep, and the join of a list would be named after all its members, too long for Postgres.
      for (const name of middle) graph.addNode(name, step(name)).addEdge('first', name).addEdge(name, 'last')
      return graph.addEdge('last', END).compile({ checkpointer })
    }),
    asking: once((steps) => {
      const ask = async () => {
        interrupt('may this plan run?')
        return { done: 0 }
      }
      return chained(new StateGraph(State).addNode('ask', ask).addEdge(START, 'ask'), steps, 'ask')
    }),
  }
}

function once(make) {
  const made = new Map()
  return (size) => {
    if (!made.has(size)) made.set(size, make(size))
    return made.get(size)
  }
}

async function saverOf({ store, url, folder, name }) {
  if (store === 'memory') return { saver: new MemorySaver(), durability: 'none', close: async () => undefined }
  if (store === 'postgres') {
    const saver = PostgresSaver.fromConnString(url, { schema: name })
    await saver.setup()
    return {
      saver,
      durability: "each step fsynced (durability 'sync', synchronous_commit on)",
      close: () => saver.end(),
    }
  }
  const saver = SqliteSaver.fromConnString(join(folder, 'langgraph.db'))
  saver.db.pragma('journal_mode = WAL')
  saver.db.pragma('synchronous = FULL') // its default here is NORMAL, which a power cut may undo
  return {
    saver,
    durability: "each step fsynced (durability 'sync', WAL, synchronous set to FULL)",
    close: async () => saver.db.close(),
  }
}
