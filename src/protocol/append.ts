/** Adds an item to the list that is kept under a key. */
export function append<K, T>(lists: Map<K, T[]>, key: K, item: T): void {
  const list = lists.get(key)
  if (list) list.push(item)
  else lists.set(key, [item])
}
