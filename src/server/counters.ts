/** Requests by method, route and status. */
export interface Counters {
  count(method: string, route: string, status: number): void
  /** With what is measured when asked. */
  text(gauges: { readonly [name: string]: Gauge }): string
}

/** Its values by their labels: `bus="redis"`, or none. */
type Gauge = readonly [says: string, ...values: readonly (readonly [labels: string, value: number])[]]

export function counters(): Counters {
  const requests = new Map<string, number>()
  return {
    count(method, route, status) {
      const labels = `method="${method}",route="${route}",status="${status}"`
      requests.set(labels, (requests.get(labels) ?? 0) + 1)
    },
    text(gauges) {
      const lines = ['# HELP mplp_http_requests_total Requests answered.', '# TYPE mplp_http_requests_total counter']
      for (const [labels, count] of requests) lines.push(`mplp_http_requests_total{${labels}} ${count}`)
      for (const [name, [says, ...values]] of Object.entries(gauges)) {
        lines.push(`# HELP ${name} ${says}`, `# TYPE ${name} gauge`)
        for (const [labels, value] of values) lines.push(`${name}${labels && `{${labels}}`} ${value}`)
      }
      return `${lines.join('\n')}\n`
    },
  }
}
