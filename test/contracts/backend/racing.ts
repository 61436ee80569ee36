import { describe, expect, it } from 'vitest'
import { FencedOut, RevisionConflict } from '../../../src/protocol/errors.ts'
import type { Backend } from '../../../src/vsl/backend.ts'
import { append, bodies, collect, type Given, needsManyProcesses, refusals, write } from './given.ts'
import { goneHolder } from './holders.ts'

/** Many at once: exactly one wins each revision, and nobody is harmed by a neighbour. */
export function racing(given: Given): void {
  describe('races', () => {
    it.each([2, 20])('lets exactly one of %i racing writers win each revision', async (writers) => {
      await race([given.backend], writers)
    })

    it.for([2, 20])('lets exactly one of %i writers in two processes win each revision', async (writers, context) => {
      needsManyProcesses(given, context)
      await race([given.backend, await given.beside()], writers)
    })

    it('lets exactly one of twenty inserts of a key win', async () => {
      const results = await Promise.allSettled(
        Array.from({ length: 20 }, (_, i) =>
          given.backend.commit(write(`stream/${i}`, 0, { entry: i, inserts: [['the one', i]] })),
        ),
      )
      const names = refusals(results)
      expect(names.filter((name) => name === undefined)).toHaveLength(1)
      expect(names.filter((name) => name === 'KeyExists')).toHaveLength(19)
      const winner = names.indexOf(undefined)
      expect((await given.backend.getMany(['the one'])).get('the one')).toBe(winner)
      expect(bodies(await collect(given.backend.feed()))).toEqual([winner])
    })

    it('gives each of thirty commits on different streams its own verdict', async () => {
      await given.backend.commit(write('base', 0, { puts: [['taken', 1]] }))
      for (let i = 0; i < 30; i++) await given.backend.commit(append(`s/${i}`, 0, 'first'))
      const results = await Promise.allSettled(
        Array.from({ length: 30 }, (_, i) => {
          const puts = [[`k/${i}`, i]] as const
          if (i % 5 === 1) return given.backend.commit(write(`s/${i}`, 0, { entry: 'stale', puts }))
          if (i % 5 === 2) return given.backend.commit(write(`s/${i}`, 1, { entry: 'fenced', puts, fence: 9 }))
          if (i % 5 === 3)
            return given.backend.commit(write(`s/${i}`, 1, { entry: 'taken', puts, inserts: [['taken', i]] }))
          return given.backend.commit(write(`s/${i}`, 1, { entry: 'second', puts }))
        }),
      )
      const verdicts = [undefined, 'RevisionConflict', 'FencedOut', 'KeyExists', undefined]
      expect(refusals(results)).toEqual(results.map((_, i) => verdicts[i % 5]))
      const landed = results.flatMap((result, i) => (result.status === 'fulfilled' ? [i] : []))
      const found = await collect(given.backend.scan('k/'))
      expect(found.map(([, value]) => value as number).sort((a, b) => a - b)).toEqual(landed)
      for (const i of results.keys())
        expect(await given.backend.head(`s/${i}`)).toMatchObject({ revision: landed.includes(i) ? 2 : 1 })
    })

    it(
      'comes to an end when two processes write the same keys in opposite order',
      async (context) => {
        needsManyProcesses(given, context)
        const keys = Array.from({ length: 20 }, (_, i) => `shared/${i}`)
        const backends = [given.backend, await given.beside()]
        const rounds = backends.map(async (backend, process) => {
          for (let round = 0; round < 10; round++) {
            await Promise.all(
              Array.from({ length: 10 }, (_, i) => {
                const order = (i + process) % 2 === 0 ? keys : keys.toReversed()
                const puts = order.map((key) => [key, { process, round, i }] as const)
                return backend.commit(write(`s/${process}/${i}`, round, { entry: { process, round, i }, puts }))
              }),
            )
          }
        })
        await Promise.all(rounds)
        expect(await collect(given.backend.feed())).toHaveLength(200)
        // The last commit wrote all of its keys: they agree.
        const values = [...(await given.backend.getMany(keys)).values()].map((value) => JSON.stringify(value))
        expect(new Set(values).size).toBe(1)
      },
      given.longMs,
    )

    it('lets no commit of an old owner land after a takeover', async () => {
      await contest([given.backend])
    })

    it(
      'lets no commit of an old owner in another process land after a takeover',
      async (context) => {
        needsManyProcesses(given, context)
        await contest([given.backend, await given.beside()])
      },
      given.longMs,
    )
  })
}

/** Writers that all want the next revision, ten times over. */
async function race(backends: readonly Backend[], writers: number): Promise<void> {
  for (let revision = 0; revision < 10; revision++) {
    const results = await Promise.allSettled(
      Array.from({ length: writers }, (_, writer) =>
        backends[writer % backends.length]!.commit(
          write('g', revision, {
            entry: { writer },
            puts: [
              ['last', { revision, writer }],
              [`by/${writer}`, revision],
            ],
          }),
        ),
      ),
    )
    const names = refusals(results)
    expect(names.filter((name) => name === undefined)).toHaveLength(1)
    expect(names.filter((name) => name === 'RevisionConflict')).toHaveLength(writers - 1)
    const writer = names.indexOf(undefined)
    for (const backend of backends) {
      expect((await backend.getMany(['last'])).get('last')).toEqual({ revision, writer })
      expect(bodies(await collect(backend.read('g', { after: revision })))).toEqual([{ writer }])
    }
  }
}

/**
 * Contenders that take the stream from each other and commit under their fence as long as they are let. Whoever has the token knows the
 * revision at which it was his; above it the journal must not hold an entry of anybody who came before him.
 */
async function contest(backends: readonly Backend[]): Promise<void> {
  const taken: { token: number; revision: number }[] = []
  const contenders = Array.from({ length: 8 }, async (_, i) => {
    const backend = backends[i % backends.length]!
    const holder = await goneHolder(`contender ${i}`) // its process is gone, so the next one need not wait
    for (let round = 0; round < 15; round++) {
      const lease = await backend.acquire('g', holder, 60_000)
      if (!lease) throw new Error('a gone holder kept its lease')
      const { revision } = await backend.head('g')
      taken.push({ token: lease.token, revision })
      for (let next = revision, tries = 0; tries < 4; tries++) {
        try {
          await backend.commit({ ...append('g', next, { token: lease.token }), fence: lease.token })
          next++
        } catch (error) {
          if (error instanceof FencedOut) break
          if (!(error instanceof RevisionConflict)) throw error
          next = error.actual
        }
      }
    }
  })
  await Promise.all(contenders)

  const entries = await collect(backends[0]!.read('g'))
  const tokens = entries.map((entry) => (entry.body as { token: number }).token)
  expect(new Set(taken.map(({ token }) => token)).size).toBe(taken.length)
  for (const { token, revision } of taken) expect(tokens.slice(revision).every((later) => later >= token)).toBe(true)
  expect(tokens.length).toBeGreaterThan(0)
}
