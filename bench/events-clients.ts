import { connectEvents } from '../src/bus/websocket-client.ts'

// The reading side of bench/events.ts, in a process of its own. Arguments: URL, number of clients, events to wait for.

const [url, clients, total] = process.argv.slice(2) as [string, string, string]
const latencies: number[] = []
let done = 0
await Promise.all(
  Array.from({ length: Number(clients) }, async () => {
    let got = 0
    const source = connectEvents(url)
    await source.subscribe({}, ({ event }) => {
      const { sent } = event.payload as { sent: string }
      latencies.push(Number(process.hrtime.bigint() - BigInt(sent)) / 1e6)
      if (++got === Number(total)) done++
      if (done === Number(clients)) finish()
    })
  }),
)
console.log('ready')

function finish(): void {
  latencies.sort((a, b) => a - b)
  const at = (share: number) => Number((latencies[Math.floor((latencies.length - 1) * share)] ?? 0).toFixed(1))
  console.log(JSON.stringify({ p50: at(0.5), p99: at(0.99), max: at(1) }))
  process.exit(0)
}
