import { appendFile, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { exportPack } from '../../src/golden/pack.ts'
import { verifyPack } from '../../src/golden/verify-pack.ts'
import { NotFound, Refused } from '../../src/protocol/errors.ts'
import { chainOf, flowOf, runtimeOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'

async function packed() {
  const runtime = await runtimeOf({})
  const run = await runtime.submit(chainOf(3))
  await run.result()
  const folder = tempFolder()
  const pack = await exportPack(runtime.project, run.plan_id, folder)
  await runtime.close()
  return { folder, pack, run }
}

describe('an evidence pack', () => {
  it('of an executed run is admissible', async () => {
    const { folder, pack } = await packed()
    expect(await verifyPack(folder)).toEqual({
      outcome: 'ADMISSIBLE',
      findings: [],
      guarantees: { 'LG-01': true, 'LG-02': true, 'LG-03': true, 'LG-04': true, 'LG-05': true },
    })
    expect(pack.events).toBeGreaterThan(10)
  })

  it('of a cancelled run points at the decisions that really happened', async () => {
    const runtime = await runtimeOf({
      hang: (_, { signal }) =>
        new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    })
    const run = await runtime.submit(flowOf({ hang: {} }))
    await run.cancel()
    await run.result()
    const folder = tempFolder()
    await exportPack(runtime.project, run.plan_id, folder)
    expect((await verifyPack(folder)).findings).toEqual([])
    const { pointers } = JSON.parse(await readFile(join(folder, 'evidence_pointers.json'), 'utf8'))
    expect(
      pointers.map((pointer: { requirement_id: string; status: string }) => [pointer.requirement_id, pointer.status]),
    ).toEqual([
      ['RQ-D1-01', 'ABSENT'],
      ['RQ-D2-01', 'PRESENT'],
      ['RQ-D3-01', 'PRESENT'],
      ['RQ-D4-01', 'PRESENT'],
    ])
    await runtime.close()
  })

  it('is refused when a file was changed, added, linked or lost', async () => {
    const cases: { [rule: string]: (pack: string) => Promise<void> } = {
      'integrity.sum': (pack) => appendFile(join(pack, 'artifacts/plan.json'), ' '),
      'integrity.extra': (pack) => writeFile(join(pack, 'artifacts/.hidden.json'), '{}'),
      'layout.plain': (pack) => symlink('/etc/hostname', join(pack, 'artifacts/link.json')),
      'layout.extension': (pack) => writeFile(join(pack, 'run.sh'), ''),
      'timeline.json': (pack) => appendFile(join(pack, 'timeline/events.ndjson'), 'nonsense\n'),
      'layout.json': (pack) => writeFile(join(pack, 'manifest.json'), '{'),
    }
    for (const [rule, spoil] of Object.entries(cases)) {
      const { folder } = await packed()
      await spoil(join(folder, 'pack'))
      const { outcome, findings } = await verifyPack(folder)
      expect({ rule, outcome }).toEqual({ rule, outcome: 'NOT_ADMISSIBLE' })
      expect(findings.map((finding) => finding.rule)).toContain(rule)
    }
  })

  it('is not written over another, nor for a run that is not there', async () => {
    const { folder, run } = await packed()
    const runtime = await runtimeOf({})
    await expect(exportPack(runtime.project, run.plan_id, folder)).rejects.toThrow(NotFound)
    const again = await runtime.submit(chainOf(1))
    await again.result()
    await expect(exportPack(runtime.project, again.plan_id, folder)).rejects.toThrow(Refused)
    await runtime.close()
  })

  it('that is no folder at all is not admissible, and nothing throws', async () => {
    expect((await verifyPack(join(tempFolder(), 'nowhere'))).outcome).toBe('NOT_ADMISSIBLE')
  })
})
