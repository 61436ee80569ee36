import type { DeliveryLog } from '../../src/bus/from-log.ts'
import { memoryTransport } from '../../src/bus/memory.ts'
import { ID, TIME } from '../protocol/samples.ts'
import { bare, type Doors, door, given, making, options, saying } from './doors.ts'

const delivery = {
  position: '1',
  graph_id: ID,
  context_id: ID,
  revision: 1,
  index: 0,
  event: { event_id: ID, event_type: 'a', event_family: 'intent', timestamp: TIME },
}

const log: DeliveryLog = {
  name: 'the log',
  traits: { durable: false, processes: 'one' },
  append: async () => undefined,
  async *read(_, signal) {
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
  },
  newest: async () => undefined,
}

const SUBSCRIBE = making(
  { close: bare },
  given({}, 'object'),
  given(() => undefined),
  options(),
)
const EVENTS = door(given({}, 'object'), options())
const source = (more: Doors = {}): Doors => ({
  subscribe: SUBSCRIBE,
  events: EVENTS,
  close: bare,
  ...more,
})
const transport = () => source({ publish: door(given([delivery], 'list')) })
/** Nobody is there to connect to. */
const CONNECTED = source({
  subscribe: { ...SUBSCRIBE, unreached: true },
  events: { ...EVENTS, unreached: true },
})

export const bus: { readonly [entry: string]: Doors } = {
  './bus': {
    dedupe: door(
      given(() => undefined),
      options(),
    ),
    fromLog: making(transport(), given(log), options()),
    logSink: door(given({ info: () => undefined })),
    openBus: making({ transport: { members: transport() } }, given('memory:'), options()),
    openBuses: door(given([{ name: 'mine', transport: memoryTransport() }], 'list'), options()),
    openSource: making(CONNECTED, given('ws://127.0.0.1:1/events'), options()),
  },
  './bus/kafka': { kafkaTransport: { ...door(saying({ url: 'kafka://127.0.0.1:1/topic' })), unreached: true } },
  './bus/memory': { memoryTransport: making(transport(), options()) },
  './bus/redis': { redisTransport: { ...door(saying({ url: 'redis://127.0.0.1:1' })), unreached: true } },
  './bus/websocket': { websocketTransport: making(transport(), options()) },
}
