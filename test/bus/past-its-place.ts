import { expect } from 'vitest'
import type { Delivery, Transport } from '../../src/bus/transport.ts'
import { delivery, series, until } from '../contracts/transport-contract.ts'

/** Who has come past their place hears all that follows, also what an older backup of the store tells, whose positions are before it. */
export async function comesPastItsPlace(bus: Transport): Promise<void> {
  await bus.publish(series(1, 5))
  const got: Delivery[] = []
  await bus.subscribe({}, (d) => void got.push(d), { after: delivery(4).position })
  await until(() => got.length === 1)
  await bus.publish([delivery(3, { graph: 'other' }), delivery(6)])
  await until(() => got.at(-1)?.revision === 6)
  expect(got.map((d) => d.revision)).toEqual([5, 3, 6])
}
