import { expect, it, onTestFinished } from 'vitest'
import { reporter } from '../../src/protocol/reporter.ts'
import { failingListeners } from '../support/failing-listeners.ts'

it.each(failingListeners('nobody home'))(
  'tells the process where who is to be told %s, and ends it for nobody',
  async (_, onError) => {
    const warned: string[] = []
    const warn = ({ message }: Error) => void warned.push(message)
    process.on('warning', warn)
    onTestFinished(() => void process.off('warning', warn))
    reporter(onError)(new Error('a bus is away'))
    await expect.poll(() => warned).toEqual(['nobody home'])
  },
)
