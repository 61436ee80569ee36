import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { connectEvents } from '../src/bus/websocket-client.ts'

// The reading side of bench/events.ts, in a process of its own. Arguments: URL, number of clients, events to wait for. When it has been told when each
// event was committed, it tells how long they took to arrive.

const [url, clients, total] = process.argv.slice(2) as [string, string, string]
const arrivals: { n: number; at: number }[] = []
const input = createInterface({ input: process.stdin })
await Promise.all(
  Array.from({ length: Number(clients) }, async () => {
    await connectEvents(url).subscribe({}, ({ event }) => {
      const { n } = event.payload as { n: number }
      arrivals.push({ n, at: Number(process.hrtime.bigint()) / 1e6 })
    })
  }),
)
console.log('ready')
const [line] = await once(input, 'line')
const times = JSON.parse(line) as { asked: number; committed: number }[]
while (arrivals.length < Number(clients) * Number(total)) await new Promise((resolve) => setTimeout(resolve, 20))

const since = (moment: 'asked' | 'committed') => {
  const waits = arrivals.map(({ n, at }) => Math.max(0, at - (times[n]?.[moment] as number))).sort((a, b) => a - b)
  const at = (share: number) => Number((waits[Math.floor((waits.length - 1) * share)] as number).toFixed(1))
  return { 'p50 ms': at(0.5), 'p99 ms': at(0.99), 'max ms': at(1) }
}
console.log(JSON.stringify({ asked: since('asked'), committed: since('committed') }))
process.exit(0)
