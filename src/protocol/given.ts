/** Only what is there: an option that is `undefined`, as `vsl: process.env.DATABASE_URL` may be, would hide a default. */
export function given<T extends object>(options: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const there = Object.entries(options).filter(([, value]) => value !== undefined)
  return Object.fromEntries(there) as { [K in keyof T]?: Exclude<T[K], undefined> }
}
