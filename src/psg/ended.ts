/** Groups that have ended but are still in memory, longest unused first. */
export interface EndedGroups {
  add(group: string): void
  delete(group: string): void
  /** Somebody asked for it: it stays longer than others. */
  use(group: string): void
  /** Takes out, and answers with, those that are too many beside these, which stay. */
  surplus(beside: ReadonlySet<string>): readonly string[]
  clear(): void
}

export function endedGroups(keep: number): EndedGroups {
  const groups = new Set<string>()
  const add = (group: string) => {
    groups.delete(group)
    groups.add(group)
  }
  return {
    add,
    delete: (group) => void groups.delete(group),
    use: (group) => void (groups.has(group) && add(group)),
    surplus(beside) {
      if (groups.size <= keep + beside.size) return NONE
      const left = [...groups].filter((group) => !beside.has(group))
      const most = left.slice(0, Math.max(left.length - keep, 0))
      for (const group of most) groups.delete(group)
      return most
    },
    clear: () => groups.clear(),
  }
}
const NONE: readonly string[] = []
