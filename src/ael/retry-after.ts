/** What a Retry-After header asks for, in milliseconds from `now`: it holds seconds or a date. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined || header.trim() === '') return undefined
  const ms = Number(header) * 1000
  if (Number.isFinite(ms)) return ms < 0 ? undefined : Math.round(ms)
  const at = Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}
