import { describe, expect, it } from 'vitest'
import { tortureRuns } from '../../scripts/torture/runs.ts'
import { suiteNeeds } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'

/** A worker that is killed five times; `npm run torture -- runs` does it as often as you like. */
function survives(name: string, url: () => string): void {
  describe(`a plan whose worker is killed, on ${name}`, () => {
    it('ends as if nothing had happened, and repeats nothing that was completed', async () => {
      const report = await tortureRuns(url(), { kills: 5, steps: 150, seed: 3 })
      expect(report).toMatchObject({ kills: 5, repeated: 0, different: 0, status: 'completed' })
    }, 120_000)
  })
}

survives('sqlite', () => `sqlite:${tempFolder()}/state.db`)
await suiteNeeds('redis', (url) => survives('redis', () => url))
await suiteNeeds('postgres', (url) => survives('postgres', () => url))
