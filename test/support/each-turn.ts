import { onTestFinished } from 'vitest'

/** By how much a count has grown at most between two turns of the event loop, so far. */
export function eachTurn(count: () => number): () => number {
  let most = 0
  let before = count()
  let isOver = false
  const look = () => {
    most = Math.max(most, count() - before)
    before = count()
    if (!isOver) setImmediate(look)
  }
  look()
  onTestFinished(() => {
    isOver = true
  })
  return () => Math.max(most, count() - before)
}
