/** Requests by method, route and status. */
export interface Counters {
  count(method: string, route: string, status: number): void
  /** With what is measured when asked. */
  text(gauges: { readonly [name: string]: readonly [says: string, value: number] }): string
}

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
      for (const [name, [says, value]] of Object.entries(gauges))
        lines.push(`# HELP ${name} ${says}`, `# TYPE ${name} gauge`, `${name} ${value}`)
      return `${lines.join('\n')}\n`
    },
  }
}
