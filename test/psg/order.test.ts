import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rankEdge, rankNew, type Steps } from '../../src/psg/order.ts'

/** A plan that is ordered edge by edge, counting how many steps the ordering asks about. */
function growing(names: readonly string[]) {
  const waitsFor = new Map<string, string[]>(names.map((name) => [name, []]))
  const waitedBy = new Map<string, string[]>(names.map((name) => [name, []]))
  const ranks = new Map(rankNew(names, () => [], 0).ranks)
  let asked = 0
  const steps: Steps = {
    dependenciesOf(step) {
      asked++
      return waitsFor.get(step)!
    },
    dependantsOf(step) {
      asked++
      return waitedBy.get(step)!
    },
    rankOf: (step) => ranks.get(step),
  }
  return {
    ranks,
    waitsFor,
    get asked() {
      return asked
    },
    connect(from: string, to: string) {
      const ordered = rankEdge(from, to, steps)
      if (ordered.cycle) return ordered.cycle
      waitsFor.get(from)!.push(to)
      waitedBy.get(to)!.push(from)
      for (const [step, rank] of ordered.ranks) ranks.set(step, rank)
      return undefined
    },
  }
}

/** Is there a way from one to the other along dependencies? Asks everything, each time. */
function reaches(waitsFor: ReadonlyMap<string, readonly string[]>, from: string, to: string): boolean {
  const seen = new Set<string>()
  const visit = (step: string): boolean => {
    if (step === to) return true
    if (seen.has(step)) return false
    seen.add(step)
    return waitsFor.get(step)!.some(visit)
  }
  return visit(from)
}

const names = (count: number) => Array.from({ length: count }, (_, i) => `s${i}`)

describe('psg/order', () => {
  it('refuses exactly the edges that would close a cycle, and keeps every step behind those it waits for', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 25 }),
        fc.array(fc.tuple(fc.nat(), fc.nat()), { maxLength: 120 }),
        (size, edges) => {
          const all = names(size)
          const plan = growing(all)
          for (const [i, j] of edges) {
            const [from, to] = [all[i % size]!, all[j % size]!]
            const closes = reaches(plan.waitsFor, to, from)
            const cycle = plan.connect(from, to)
            expect(cycle !== undefined).toBe(closes)
            if (cycle) expectCycle(cycle, new Map(plan.waitsFor).set(from, [...plan.waitsFor.get(from)!, to]))
            for (const [step, others] of plan.waitsFor)
              for (const other of others) expect(plan.ranks.get(step)!).toBeGreaterThan(plan.ranks.get(other)!)
            expect(new Set(plan.ranks.values()).size).toBe(size)
          }
        },
      ),
      { numRuns: 500 },
    )
  })

  it('orders new steps by depth, then as given, behind those that were there; or names a cycle among them', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.nat(11), { maxLength: 4 }), { maxLength: 12 }), fc.nat(50), (specs, after) => {
        const all = names(specs.length)
        const waitsFor = new Map(specs.map((spec, i) => [all[i]!, spec.flatMap((n) => all[n] ?? [])]))
        const { ranks, cycle } = rankNew(all, (step) => waitsFor.get(step)!, after)
        const round = all.some((step) => waitsFor.get(step)!.some((other) => reaches(waitsFor, other, step)))
        expect(cycle !== undefined).toBe(round)
        if (cycle) return expectCycle(cycle, waitsFor)
        const depth = new Map<string, number>()
        const depthOf = (step: string): number => {
          const known = depth.get(step) ?? Math.max(-1, ...waitsFor.get(step)!.map(depthOf)) + 1
          depth.set(step, known)
          return known
        }
        const expected = [...all].sort((a, b) => depthOf(a) - depthOf(b) || all.indexOf(a) - all.indexOf(b))
        expect([...ranks.keys()]).toEqual(expected)
        expect([...ranks.values()]).toEqual(expected.map((_, i) => after + i + 1))
      }),
      { numRuns: 500 },
    )
  })

  it('asks about nothing when an edge agrees with the order', () => {
    const plan = growing(names(1000))
    for (let i = 1; i < 1000; i++) plan.connect(`s${i}`, `s${i - 1}`)
    expect(plan.asked).toBe(0)
  })

  it('asks only about what lies between the two ends of an edge', () => {
    const plan = growing(names(1000))
    plan.connect('s500', 's510') // turned round: nothing lies between them that either is connected to
    expect(plan.asked).toBeLessThanOrEqual(4)
  })

  it('looks at each step of a ladder of 60 diamonds once, not once per way through it', () => {
    const all: string[] = ['top']
    for (let layer = 0; layer < 60; layer++) all.push(`l${layer}`, `r${layer}`, `j${layer}`)
    all.push('bottom')
    const plan = growing(all)
    let joint = 'top'
    for (let layer = 0; layer < 60; layer++) {
      for (const side of [`l${layer}`, `r${layer}`]) {
        plan.connect(side, joint)
        plan.connect(`j${layer}`, side)
      }
      joint = `j${layer}`
    }
    expect(plan.connect('bottom', joint)).toBeUndefined()
    const before = plan.asked
    const cycle = plan.connect('top', 'bottom')
    expect(cycle).toHaveLength(122) // one way down: 2 steps per layer, and both ends
    expect(plan.asked - before).toBeLessThanOrEqual(all.length)
  })

  it('names cycles of length 1, 2 and 1,000', () => {
    const ring = (size: number) => {
      const all = names(size)
      return rankNew(all, (step) => [all[(all.indexOf(step) + 1) % size]!], 0).cycle!
    }
    expect(ring(1)).toEqual(['s0'])
    expect(ring(2)).toHaveLength(2)
    expect(ring(1000)).toHaveLength(1000)
    const plan = growing(names(1000))
    for (let i = 1; i < 1000; i++) plan.connect(`s${i}`, `s${i - 1}`)
    expect(plan.connect('s0', 's0')).toEqual(['s0'])
    expect(plan.connect('s0', 's1')).toEqual(['s1', 's0'])
    expect(plan.connect('s0', 's999')).toHaveLength(1000)
  })

  it('orders a chain of 100,000 without running out of stack, forwards and backwards', () => {
    const all = names(100_000)
    const place = new Map(all.map((step, i) => [step, i]))
    const forwards = rankNew(all, (step) => (step === 's0' ? [] : [all[place.get(step)! - 1]!]), 0)
    expect(forwards.ranks.get('s99999')).toBe(100_000)
    const backwards = rankNew(all, (step) => all.slice(place.get(step)! + 1, place.get(step)! + 2), 0)
    expect(backwards.ranks.get('s0')).toBe(100_000)
  })
})

/** Each waits for the next, and the last for the first. */
function expectCycle(cycle: readonly string[], waitsFor: ReadonlyMap<string, readonly string[]>): void {
  expect(new Set(cycle).size).toBe(cycle.length)
  for (const [i, step] of cycle.entries()) expect(waitsFor.get(step)).toContain(cycle[(i + 1) % cycle.length])
}
