import { getEventListeners } from 'node:events'
import { describe, expect, it, vi } from 'vitest'
import { keepWatched, onAbort } from '../../src/protocol/on-abort.ts'

describe('who waits for a signal', () => {
  const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length

  it('shares one listener with all others, and the last one takes it along: what AbortSignal.any made would be kept for it', () => {
    const { signal } = new AbortController()
    const forget = [onAbort(signal, () => undefined), onAbort(signal, () => undefined)]
    expect(listeners(signal)).toBe(1)
    forget[0]?.()
    forget[0]?.()
    expect(listeners(signal)).toBe(1)
    forget[1]?.()
    expect(listeners(signal)).toBe(0)
  })

  it('finds the listener of those before where the signal is kept watched, until it is no longer', () => {
    const { signal } = new AbortController()
    const listens = vi.spyOn(signal, 'addEventListener')
    const forget = keepWatched(signal)
    for (let i = 0; i < 3; i++) onAbort(signal, () => undefined)()
    expect(listens).toHaveBeenCalledTimes(1)
    forget()
    expect(listeners(signal)).toBe(0)
  })

  it('is told also where everybody had left before, and one who had leaves again', () => {
    const controller = new AbortController()
    const told: string[] = []
    const forget = onAbort(controller.signal, () => told.push('the first'))
    forget()
    onAbort(controller.signal, () => told.push('the second'))
    forget()
    controller.abort()
    expect(told).toEqual(['the second'])
  })
})
