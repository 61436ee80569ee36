/** Groups that have ended but are still in memory, longest unused first. */
export interface EndedGroups {
  add(group: string): void
  delete(group: string): void
  /** Somebody asked for it: it stays longer than others. */
  use(group: string): void
  /** Takes out, and answers with, those that are too many. */
  surplus(): readonly string[]
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
    surplus() {
      if (groups.size <= keep) return NONE
      const most = [...groups].slice(0, groups.size - keep)
      for (const group of most) groups.delete(group)
      return most
    },
    clear: () => groups.clear(),
  }
}
const NONE: readonly string[] = []
