import { describe, expect, it, vi } from 'vitest'
import { trackFiles } from '../../src/drift/track.ts'
import type { TrackOptions } from '../../src/drift/tracker.ts'
import { decide } from '../../src/psg/moves.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { graphOf } from './given.ts'
import { differences, editDisk, editGraph, type Luck, luck, startFolder, told } from './simulator.ts'

const ROUNDS = 7
const EDITS = 60

async function watched(chance: Luck, options: Pick<TrackOptions, 'rules'> = {}) {
  const root = tempFolder()
  startFolder(root, chance)
  const graph = await graphOf()
  const errors: unknown[] = []
  const onError = (error: unknown) => void errors.push(error)
  const tracker = await trackFiles(graph, { root, watch: true, settleMs: 20, onError, ...options })
  return { root, graph, tracker, errors }
}

describe.each(['files', 'graph', 'merge', 'ask'] as const)(
  'random edits of disk and graph, settled by %s',
  (strategy) => {
    it.each([1, 2])(
      'leave exactly the true differences, and none once they are settled (seed %i)',
      async (seed) => {
        const chance = luck(seed * 7919 + strategy.length)
        const rules = [{ match: '**', strategy: 'ask', rejected: 'graph' }] as const
        const { root, graph, tracker, errors } = await watched(chance, { rules })
        for (let round = 0; round < ROUNDS; round++) {
          for (let i = 0; i < EDITS; i++) {
            if (chance.below(8) === 0) await editGraph(graph, chance)
            else editDisk(root, chance)
            if (chance.below(10) === 0) await new Promise((resolve) => setTimeout(resolve, chance.below(40)))
          }
          await tracker.idle()
          const { findings } = await tracker.scan()
          expect(told(findings)).toEqual(differences(graph, root))

          await tracker.reconcile('all', strategy)
          for (let turn = 0; turn < 8; turn++) {
            for (const { confirm_id } of tracker.findings()) {
              const status = strategy === 'ask' && turn < 2 && chance.below(2) === 0 ? 'rejected' : 'approved'
              await graph.commit(decide(graph, confirm_id!, { status, decided_by_role: 'tester' }), {
                actor: 'tester',
                reason: 'decided',
              })
            }
            await new Promise((resolve) => setTimeout(resolve, 50))
            await tracker.idle()
            if (tracker.findings().length === 0) break
          }
          await tracker.scan()
          expect(tracker.findings().map(({ what, path }) => `${what} ${path}`)).toEqual([])
          expect(differences(graph, root).lines).toEqual([])
        }
        await tracker.close()
        expect(errors).toEqual([])
        expect(await graph.verify()).toEqual([])
      },
      60_000,
    )
  },
)

describe('random edits of disk that nobody scans for', () => {
  it.each([1, 2])(
    'are all found by watching, whole folders that come, go and are replaced among them (seed %i)',
    async (seed) => {
      const chance = luck(seed * 104_729)
      const { root, graph, tracker, errors } = await watched(chance)
      const watchedUntil = (holds: () => void) =>
        vi.waitFor(() => tracker.idle().then(holds), { timeout: 20_000, interval: 100 })
      for (let round = 0; round < ROUNDS; round++) {
        for (let i = 0; i < EDITS; i++) {
          editDisk(root, chance)
          if (chance.below(10) === 0) await new Promise((resolve) => setTimeout(resolve, chance.below(40)))
        }
        await watchedUntil(() => expect(told(tracker.findings())).toEqual(differences(graph, root)))
        await tracker.reconcile('all', 'files')
        await watchedUntil(() => expect(tracker.findings()).toEqual([]))
      }
      await tracker.close()
      expect(errors).toEqual([])
    },
    60_000,
  )
})
