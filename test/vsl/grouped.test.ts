import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  Closed,
  FencedOut,
  InvalidInput,
  KeyExists,
  OutcomeUnknown,
  Refused,
  RevisionConflict,
  Unavailable,
} from '../../src/protocol/errors.ts'
import { type Again, type Grouped, grouped, type PreparedWrite, type Verdict } from '../../src/vsl/grouped.ts'
import { append, refusals, write } from '../contracts/backend/given.ts'

describe('group commit', () => {
  it('sends a lone commit at once, alone', async () => {
    const { commit, batches } = slowMember()
    const landed = commit(append('a', 0))
    await batches.next()
    expect(batches.sent).toEqual([['a']])
    batches.answer()
    await landed
  })

  it('sends what is asked for in one breath together', async () => {
    const { commit, batches } = slowMember()
    const landed = Promise.all(['a', 'b', 'c'].map((stream) => commit(append(stream, 0))))
    await batches.next()
    expect(batches.sent).toEqual([['a', 'b', 'c']])
    batches.answer()
    await landed
  })

  it('keeps one batch in flight unless told otherwise; what arrives meanwhile forms the next, with what its answer sets free', async () => {
    const { commit, batches } = slowMember()
    const first = commit(append('a', 0)).then(() => commit(append('a', 1)))
    await batches.next()
    const others = ['b', 'c'].map((stream) => commit(append(stream, 0)))
    await turn()
    expect(batches.sent).toEqual([['a']])
    batches.answer()
    await batches.next()
    expect(batches.sent).toEqual([['a'], ['b', 'c', 'a']])
    batches.answer()
    await Promise.all([first, ...others])
  })

  it('lets what arrives go beside a batch in flight if there is a lane, unless the batch has its stream or key', async () => {
    const sent: string[][] = []
    const answers: (() => void)[] = []
    const { commit } = grouped(
      {
        commitBatch: (batch) => {
          sent.push(batch.map((w) => w.stream))
          return new Promise((answer) => answers.push(() => answer(batch.map(() => ({ kind: 'landed' })))))
        },
      },
      { what: 'a store', lanes: 2 },
    )
    const send = (stream: string) => commit(write(stream, 0, { puts: [[`k${stream}`, 1]] }))
    const landed = ['a', 'b', 'c'].map(send)
    await turn()
    landed.push(send('d'))
    const blocked = [commit(append('a', 1)), commit(write('e', 0, { puts: [['kb', 2]] }))]
    await turn()
    expect(sent).toEqual([['a', 'b', 'c'], ['d']])
    answers[1]!()
    await landed[3]
    await turn()
    expect(sent).toHaveLength(2)
    answers[0]!()
    await Promise.all(landed)
    await turn()
    expect(sent.slice(2)).toEqual([['a', 'e']])
    answers[2]!()
    await Promise.all(blocked)
  })

  it('sends a commit only after its predecessor in the stream was answered', async () => {
    const { commit, batches } = slowMember()
    const landed = Promise.all([commit(append('a', 0)), commit(append('a', 1)), commit(append('b', 0))])
    await batches.next()
    expect(batches.writes.at(-1)!.map((w) => [w.stream, w.expected])).toEqual([
      ['a', 0],
      ['b', 0],
    ])
    batches.answer()
    await batches.next()
    expect(batches.writes.at(-1)!.map((w) => [w.stream, w.expected])).toEqual([['a', 1]])
    batches.answer()
    await landed
  })

  it('lets no two writes of a batch touch the same key, and none overtake another that does', async () => {
    const { commit, batches } = slowMember()
    const landed = Promise.all([
      commit(write('a', 0, { puts: [['k', 1]] })),
      commit(write('b', 0, { deletes: ['k'], inserts: [['l', 1]] })),
      commit(write('c', 0, { puts: [['l', 2]] })),
      commit(write('d', 0, { puts: [['m', 1]] })),
    ])
    for (const expected of [['a', 'd'], ['b'], ['c']]) {
      await batches.next()
      expect(batches.sent.at(-1)).toEqual(expected)
      batches.answer()
    }
    await landed
  })

  it('sends a write alone that forgets a stream, whatever waits before and behind it', async () => {
    const { commit, batches } = slowMember()
    const forget = (stream: string) => commit({ stream, expected: 1, forget: true, inserts: [], puts: [], deletes: [] })
    const landed = Promise.all([forget('a'), commit(append('b', 0)), forget('c'), commit(append('d', 0))])
    for (const expected of [['a'], ['b', 'd'], ['c']]) {
      await batches.next()
      expect(batches.sent.at(-1)).toEqual(expected)
      batches.answer()
    }
    await landed
  })

  it('bounds a batch by count and by bytes, and sends alone what is larger than the bound', async () => {
    const byCount = slowMember({ maxWrites: 2 })
    const three = Promise.all(['a', 'b', 'c'].map((stream) => byCount.commit(append(stream, 0))))
    for (const expected of [['a', 'b'], ['c']]) {
      await byCount.batches.next()
      expect(byCount.batches.sent.at(-1)).toEqual(expected)
      byCount.batches.answer()
    }
    await three

    const byBytes = slowMember({ maxBytes: 100 })
    const sizes = { a: 40, b: 40, c: 200, d: 10 }
    const four = Promise.all(Object.entries(sizes).map(([s, n]) => byBytes.commit(append(s, 0, 'x'.repeat(n)))))
    for (const expected of [['a', 'b', 'd'], ['c']]) {
      await byBytes.batches.next()
      expect(byBytes.batches.sent.at(-1)).toEqual(expected)
      byBytes.batches.answer()
    }
    await four
  })

  it('gives each write its own verdict, with the numbers of the store', async () => {
    const { commit, batches } = slowMember()
    const results = Promise.allSettled([
      commit(append('a', 0)),
      commit({ ...append('b', 1), fence: 3 }),
      commit(append('c', 5)),
      commit(write('d', 0, { inserts: [['k', 1]] })),
    ])
    await batches.next()
    batches.answer([
      { kind: 'landed' },
      { kind: 'fenced', token: 4 },
      { kind: 'conflict', actual: 2 },
      { kind: 'exists', key: 'k' },
    ])
    expect((await results).map((r) => (r.status === 'rejected' ? r.reason : undefined))).toEqual([
      undefined,
      new FencedOut('b', 3, 4),
      new RevisionConflict('c', 5, 2),
      new KeyExists('k'),
    ])
  })

  it('sends a write again that was neither written nor refused, before what came later', async () => {
    const { commit, batches } = slowMember()
    const landed = Promise.all([commit(append('a', 0)), commit(append('b', 0))])
    await batches.next()
    const later = commit(append('a', 1))
    batches.answer([{ kind: 'again' }, { kind: 'landed' }])
    await batches.next()
    expect(batches.writes.at(-1)!.map((w) => [w.stream, w.expected])).toEqual([['a', 0]])
    batches.answer()
    await batches.next()
    expect(batches.writes.at(-1)!.map((w) => [w.stream, w.expected])).toEqual([['a', 1]])
    batches.answer()
    await Promise.all([landed, later])
  })

  it('gives up on a write that is neither written nor refused, again and again', async () => {
    let sent = 0
    const { commit } = grouped(
      {
        async commitBatch(writes) {
          sent++
          return writes.map(({ stream }) => ({ kind: stream === 'stuck' ? 'again' : 'landed' }))
        },
      },
      { what: 'a store' },
    )
    const results = await Promise.allSettled(['a', 'stuck', 'b'].map((stream) => commit(append(stream, 0))))
    expect(refusals(results)).toEqual([undefined, 'Unavailable', undefined])
    expect(sent).toBe(20)
    await commit(append('c', 0))
  })

  it('makes every write of a batch unknown when the reply is lost, and goes on', async () => {
    const { commit, batches } = slowMember()
    const results = Promise.allSettled(['a', 'b'].map((stream) => commit(append(stream, 0))))
    await batches.next()
    const lost = new Error('connection reset')
    batches.fail(lost)
    for (const result of await results) {
      expect(result).toMatchObject({ status: 'rejected', reason: expect.any(OutcomeUnknown) })
      expect((result as PromiseRejectedResult).reason.cause).toBe(lost)
    }
    const next = commit(append('a', 0))
    await batches.next()
    batches.answer()
    await next
  })

  it('takes a missing verdict for a lost reply', async () => {
    const { commit, batches } = slowMember()
    const results = Promise.allSettled(['a', 'b'].map((stream) => commit(append(stream, 0))))
    await batches.next()
    batches.answer([{ kind: 'landed' }])
    expect(refusals(await results)).toEqual([undefined, 'OutcomeUnknown'])
  })

  it('tells every write of a batch that the store is away', async () => {
    const { commit, batches } = slowMember()
    const results = Promise.allSettled(['a', 'b'].map((stream) => commit(append(stream, 0))))
    await batches.next()
    batches.fail(new Unavailable('it', 'try again'))
    expect(refusals(await results)).toEqual(['Unavailable', 'Unavailable'])
    expect(batches.sent).toEqual([['a', 'b']])
  })

  it('lets one impossible write harm nobody else', async () => {
    const sent: string[][] = []
    const { commit } = grouped(
      {
        async commitBatch(writes) {
          sent.push(writes.map((w) => w.stream))
          if (writes.some((w) => w.stream === 'bad')) throw new Refused('it does not fit', 'change it')
          return writes.map(() => ({ kind: 'landed' }))
        },
      },
      { what: 'a store' },
    )
    const results = await Promise.allSettled(['a', 'bad', 'b'].map((stream) => commit(append(stream, 0))))
    expect(refusals(results)).toEqual([undefined, 'Refused', undefined])
    expect(sent).toEqual([['a', 'bad', 'b'], ['a'], ['bad'], ['b']])
  })

  it('refuses bad input before it is sent', async () => {
    const { commit, batches } = slowMember()
    const good = commit(append('a', 0))
    await expect(commit(append('', 0))).rejects.toThrow(InvalidInput)
    await batches.next()
    expect(batches.sent).toEqual([['a']])
    batches.answer()
    await good
  })

  it('sends what was asked for, whatever the caller changes afterwards', async () => {
    const { commit, batches } = slowMember()
    const entry = { n: 1 }
    const deletes = ['k']
    const landed = commit(write('a', 0, { entry, deletes }))
    entry.n = 2
    deletes.push('l')
    await batches.next()
    expect(batches.writes).toEqual([[expect.objectContaining({ entry: '{"n":1}', deletes: ['k'] })]])
    batches.answer()
    await landed
  })

  it('closes after everything in hand is answered, and refuses what comes later', async () => {
    const { commit, close, batches } = slowMember()
    const landed = Promise.all([commit(append('a', 0)), commit(append('a', 1))])
    let closed = false
    const closing = Promise.all([close(), close()]).then(() => {
      closed = true
    })
    await expect(commit(append('b', 0))).rejects.toThrow(Closed)
    for (const expected of [0, 1]) {
      await batches.next()
      expect(batches.writes.at(-1)).toMatchObject([{ expected }])
      expect(closed).toBe(false)
      batches.answer()
    }
    await landed
    await closing
  })

  it('closes after every lane is done, those too that another one has put to use meanwhile', async () => {
    const answers: (() => void)[] = []
    const { commit, close } = grouped(
      {
        commitBatch: (batch) =>
          new Promise((answer) => answers.push(() => answer(batch.map(() => ({ kind: 'landed' }))))),
      },
      { what: 'a store', lanes: 2, maxWrites: 1 },
    )
    const landed = [commit(write('a', 0, { puts: [['k', 1]] }))]
    await turn()
    landed.push(commit(append('a', 1)), commit(write('b', 0, { puts: [['k', 2]] }))) // both wait for the first
    await turn()
    let closed = false
    const closing = close().then(() => {
      closed = true
    })
    answers[0]!()
    for (const _ of [0, 1, 2]) await turn()
    expect(answers).toHaveLength(3)
    answers[1]!()
    await landed[1]
    await turn()
    expect(closed).toBe(false)
    answers[2]!()
    await Promise.all([...landed, closing])
  })

  it('keeps order within streams and keys, and answers everything, whatever comes in', async () => {
    const writes = fc.array(
      fc.record({
        stream: fc.constantFrom('a', 'b', 'c', 'd'),
        key: fc.constantFrom('k', 'l', 'm', 'n'),
        pause: fc.nat(2),
      }),
      { maxLength: 40 },
    )
    /** How long the batches of each lane take, in turns. */
    const lanes = fc.array(fc.nat(3), { minLength: 1, maxLength: 3 })
    await fc.assert(
      fc.asyncProperty(writes, fc.integer({ min: 1, max: 5 }), lanes, async (asked, maxWrites, delays) => {
        const seen: PreparedWrite[] = []
        const inFlight = new Set<readonly PreparedWrite[]>()
        let batches = 0
        const { commit } = grouped(
          {
            async commitBatch(batch) {
              inFlight.add(batch)
              const together = [...inFlight].flat()
              expect(inFlight.size).toBeLessThanOrEqual(delays.length)
              expect(batch.length).toBeLessThanOrEqual(maxWrites)
              expect(new Set(together.map((w) => w.stream)).size).toBe(together.length)
              expect(new Set(together.map((w) => w.puts[0]![0])).size).toBe(together.length)
              for (let n = delays[batches++ % delays.length]!; n >= 0; n--) await turn()
              seen.push(...batch)
              inFlight.delete(batch)
              return batch.map(() => ({ kind: 'landed' }))
            },
          },
          { what: 'a store', maxWrites, lanes: delays.length },
        )
        const work: Promise<void>[] = []
        for (const [i, { stream, key, pause }] of asked.entries()) {
          work.push(commit(write(stream, i, { puts: [[key, i]] })))
          for (let n = 0; n < pause; n++) await turn()
        }
        await Promise.all(work)
        expect(seen).toHaveLength(asked.length)
        for (const [name, nameOf] of [
          ...['a', 'b', 'c', 'd'].map((stream) => [stream, (w: PreparedWrite) => w.stream] as const),
          ...['k', 'l', 'm', 'n'].map((key) => [key, (w: PreparedWrite) => w.puts[0]![0]] as const),
        ]) {
          const order = seen.filter((w) => nameOf(w) === name).map((w) => w.expected)
          expect(order).toEqual(order.toSorted((a, b) => a - b))
        }
      }),
      { numRuns: 200 },
    )
  })
})

interface Batches {
  readonly writes: readonly (readonly PreparedWrite[])[]
  readonly sent: readonly string[][]
  /** Resolves when a batch is waiting for its answer. */
  next(): Promise<void>
  /** Everything landed, unless told otherwise. */
  answer(verdicts?: readonly (Verdict | Again)[]): void
  fail(error: Error): void
}

/** A member that answers when the test says so. */
function slowMember(bounds: { maxWrites?: number; maxBytes?: number } = {}): Grouped & { batches: Batches } {
  const writes: (readonly PreparedWrite[])[] = []
  let pending: { answer(verdicts: readonly (Verdict | Again)[]): void; fail(error: Error): void } | undefined
  let arrived = () => {}
  const group = grouped(
    {
      commitBatch: (batch) =>
        new Promise((answer, fail) => {
          expect(pending, 'a second batch in flight').toBeUndefined()
          pending = { answer, fail }
          writes.push(batch)
          arrived()
        }),
    },
    { what: 'a store', ...bounds },
  )
  const take = () => {
    const waiting = pending!
    pending = undefined
    return waiting
  }
  return {
    ...group,
    batches: {
      writes,
      get sent() {
        return writes.map((batch) => batch.map((w) => w.stream))
      },
      next: () =>
        new Promise((resolve) => {
          arrived = resolve
          if (pending) resolve()
        }),
      answer: (verdicts) => take().answer(verdicts ?? writes.at(-1)!.map((): Verdict => ({ kind: 'landed' }))),
      fail: (error) => take().fail(error),
    },
  }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))
