import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  cpSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { exportPack, sha256 } from '../../src/golden/pack.ts'
import { verifyPack } from '../../src/golden/verify-pack.ts'
import type { JsonObject } from '../../src/protocol/json.ts'
import { chainOf, runtimeOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'

const NOBODY = '0a9f1f5e-6f0b-4a2e-8a54-0d3c3f6c9b11'
const eventId = (n: number): string => `3c9a2f7e-0b1d-4e55-9a52-7f1f0a6f2a1${n}`

let sound: string
beforeAll(async () => {
  const runtime = await runtimeOf({})
  const run = await runtime.submit(chainOf(2))
  await run.result()
  sound = tempFolder()
  await exportPack(runtime.project, run.plan_id, sound)
  await runtime.close()
})

/** What a copy of the sound pack is found to be after something was done to it. */
async function spoilt(spoil: (pack: string, folder: string) => void) {
  const folder = join(tempFolder(), 'run')
  cpSync(sound, folder, { recursive: true })
  spoil(join(folder, 'pack'), folder)
  const { outcome, findings } = await verifyPack(folder)
  return { outcome, rules: findings.map(({ rule }) => rule), findings }
}

/** Changes a JSON file and puts the checksums right, so that only what it says is wrong. */
function rewritten(pack: string, path: string, change: (text: string) => string): void {
  const file = join(pack, path)
  const before = readFileSync(file, 'utf8')
  const after = change(before)
  expect(after).not.toBe(before)
  writeFileSync(file, after)
  const sums = join(pack, 'integrity/sha256sums.txt')
  const lines = readFileSync(sums, 'utf8').replace(sha256(before), sha256(after))
  writeFileSync(sums, lines)
  writeFileSync(join(pack, 'integrity/pack.sha256'), sha256(lines.trimEnd()))
}
const inJson = (change: (value: JsonObject) => unknown) => (text: string) => JSON.stringify(change(JSON.parse(text)))
const saying = (path: string, change: (value: JsonObject) => unknown) => (pack: string) =>
  rewritten(pack, path, inJson(change))
const inManifest = (part: object) => saying('manifest.json', (value) => ({ ...value, ...part }))
const inPlan = (change: (steps: readonly JsonObject[]) => readonly JsonObject[]) =>
  saying('artifacts/plan.json', ({ steps, ...plan }) => ({ ...plan, steps: change(steps as JsonObject[]) }))
/** In the trace, the first event once more for each of these, changed like that. */
const tracing = (...others: readonly object[]) =>
  saying('artifacts/trace.json', (value) => {
    const events = value.events as JsonObject[]
    return { ...value, events: [...events, ...others.map((other) => ({ ...events[0], ...other }))] }
  })

describe('verifying a pack', () => {
  const cases: { readonly [title: string]: readonly [rule: string, spoil: (pack: string, folder: string) => void] } = {
    'a file was changed': ['integrity.sum', (pack) => appendFileSync(join(pack, 'artifacts/plan.json'), ' ')],
    'a file was added': ['integrity.extra', (pack) => writeFileSync(join(pack, 'artifacts/.hidden.json'), '{}')],
    'a file was added among the checksums': [
      'integrity.extra',
      (pack) => writeFileSync(join(pack, 'integrity/more.txt'), 'x'),
    ],
    'a file was lost': ['integrity.missing', (pack) => rmSync(join(pack, 'artifacts/confirm.json'))],
    'the checksums are lost': ['integrity.sums', (pack) => rmSync(join(pack, 'integrity/sha256sums.txt'))],
    'a checksum is listed twice': [
      'integrity.line',
      (pack) => {
        const sums = join(pack, 'integrity/sha256sums.txt')
        appendFileSync(sums, readFileSync(sums, 'utf8').split('\n')[0]!)
      },
    ],
    'a line is no checksum': [
      'integrity.line',
      (pack) => appendFileSync(join(pack, 'integrity/sha256sums.txt'), 'nonsense\n'),
    ],
    'the root is lost': ['integrity.root', (pack) => rmSync(join(pack, 'integrity/pack.sha256'))],
    'the root is another': ['integrity.root', (pack) => writeFileSync(join(pack, 'integrity/pack.sha256'), 'abc')],
    'the manifest is lost': ['layout.missing', (pack) => rmSync(join(pack, 'manifest.json'))],
    'the manifest is broken': ['layout.json', (pack) => writeFileSync(join(pack, 'manifest.json'), '{')],
    'the manifest is a list': ['manifest.type', (pack) => rewritten(pack, 'manifest.json', () => '[]')],
    'the protocol is another': [
      'manifest.protocol',
      (pack) =>
        rewritten(
          pack,
          'manifest.json',
          inJson((value) => ({ ...value, protocol_version: '1.0' })),
        ),
    ],
    'the protocol is not told': ['manifest.protocol', inManifest({ protocol_version: undefined })],
    'the pack is of another version': ['manifest.version', inManifest({ pack_version: '2.0' })],
    'an artifact is named by what is no text': [
      'manifest.artifact',
      inManifest({ artifacts_included: [['plan.json']] }),
    ],
    'the generator has no name': [
      'manifest.field',
      (pack) =>
        rewritten(
          pack,
          'manifest.json',
          inJson((value) => ({ ...value, generator: {} })),
        ),
    ],
    'an artifact is named that is not there': [
      'manifest.artifact',
      (pack) =>
        rewritten(
          pack,
          'manifest.json',
          inJson((value) => ({ ...value, artifacts_included: ['../../etc/passwd'] })),
        ),
    ],
    'the timeline is lost': ['timeline.missing', (pack) => rmSync(join(pack, 'timeline/events.ndjson'))],
    'the timeline is empty': ['timeline.empty', (pack) => rewritten(pack, 'timeline/events.ndjson', () => '\n')],
    'a line is no JSON': [
      'timeline.json',
      (pack) => rewritten(pack, 'timeline/events.ndjson', (text) => `${text}nonsense\n`),
    ],
    'an event has no family': [
      'timeline.event',
      (pack) =>
        rewritten(pack, 'timeline/events.ndjson', (text) => text.replace('"event_family":"pipeline_stage",', '')),
    ],
    'an event has a family that only objects have': [
      'timeline.event',
      (pack) =>
        rewritten(pack, 'timeline/events.ndjson', (text) =>
          text.replace('"event_family":"pipeline_stage"', '"event_family":"constructor"'),
        ),
    ],
    'events are out of order': [
      'timeline.order',
      (pack) => rewritten(pack, 'timeline/events.ndjson', (text) => text.trim().split('\n').toReversed().join('\n')),
    ],
    'an event is told twice': [
      'timeline.order',
      (pack) => rewritten(pack, 'timeline/events.ndjson', (text) => `${text.split('\n')[0]}\n${text}`),
    ],
    'an event is told again later': [
      'timeline.twice',
      (pack) =>
        rewritten(pack, 'timeline/events.ndjson', (text) => {
          const first = JSON.parse(text.split('\n')[0]!)
          return text + JSON.stringify({ ...first, timestamp: '2999-01-01T00:00:00.000000Z' })
        }),
    ],
    'a text is not UTF-8': [
      'layout.utf8',
      (pack) => {
        const file = join(pack, 'artifacts/plan.json')
        const bytes = readFileSync(file)
        bytes[bytes.indexOf('A plan')] = 0xff
        writeFileSync(file, bytes)
      },
    ],
    'a context is there a second time': [
      'artifact.twice',
      (pack) => cpSync(join(pack, 'artifacts/context.json'), join(pack, 'artifacts/context-2.json')),
    ],
    'a plan has a step twice': [
      'artifact.twice',
      inPlan(([first, second]) => [first!, { ...second!, step_id: first!.step_id! }]),
    ],
    'a step waits for one that is not in the plan': [
      'artifact.reference',
      inPlan(([first, second]) => [first!, { ...second!, dependencies: [NOBODY] }]),
    ],
    'a dialog is of another context': [
      'artifact.reference',
      (pack) => {
        const { meta } = JSON.parse(readFileSync(join(pack, 'artifacts/context.json'), 'utf8'))
        const dialog = { meta, dialog_id: NOBODY, context_id: NOBODY, status: 'active', messages: [] }
        writeFileSync(join(pack, 'artifacts/dialog.json'), JSON.stringify(dialog))
      },
    ],
    'an object does not fit its schema': [
      'artifact.valid',
      (pack) =>
        rewritten(
          pack,
          'artifacts/plan.json',
          inJson((value) => ({ ...value, extra: 1 })),
        ),
    ],
    'a trace is of another plan': [
      'artifact.reference',
      (pack) =>
        rewritten(pack, 'artifacts/trace.json', (text) => text.replace(/"plan_id": "[^"]+"/, `"plan_id": "${NOBODY}"`)),
    ],
    'a trace is of another context': [
      'artifact.reference',
      saying('artifacts/trace.json', (value) => ({ ...value, context_id: NOBODY })),
    ],
    'a plan is of another context': [
      'artifact.reference',
      saying('artifacts/plan.json', (value) => ({ ...value, context_id: NOBODY })),
    ],
    'a decision is about another plan': [
      'artifact.reference',
      saying('artifacts/confirm.json', (value) => ({ ...value, target_id: NOBODY })),
    ],
    'a decision is about a trace that is not there': [
      'artifact.reference',
      saying('artifacts/confirm.json', (value) => ({ ...value, target_type: 'trace' })),
    ],
    'a decision is about an extension that is not there': [
      'artifact.reference',
      saying('artifacts/confirm.json', (value) => ({ ...value, target_type: 'extension' })),
    ],
    'a second plan does not fit its schema': [
      'artifact.valid',
      (pack) => writeFileSync(join(pack, 'artifacts/plan-2.json'), '{}'),
    ],
    'the context is lost': ['artifact.missing', (pack) => rmSync(join(pack, 'artifacts/context.json'))],
    'the plan is lost': ['artifact.missing', (pack) => rmSync(join(pack, 'artifacts/plan.json'))],
    'the trace is lost': ['artifact.missing', (pack) => rmSync(join(pack, 'artifacts/trace.json'))],
    'the context was not active': [
      'artifact.context',
      (pack) =>
        rewritten(
          pack,
          'artifacts/context.json',
          inJson((value) => ({ ...value, status: 'archived' })),
        ),
    ],
    'the trace tells nothing': [
      'artifact.trace',
      (pack) =>
        rewritten(
          pack,
          'artifacts/trace.json',
          inJson((value) => ({ ...value, events: [] })),
        ),
    ],
    'the trace tells something under no dotted word': ['artifact.valid', tracing({ event_type: 'Tool Call' })],
    'a tool answers that was not called': ['artifact.trace', tracing({ event_type: 'tool.result', data: {} })],
    'a tool was called with nothing': ['artifact.trace', tracing({ event_type: 'tool.call', data: undefined })],
    'a tool answers nothing': [
      'artifact.trace',
      tracing({ event_type: 'tool.call', data: {} }, { event_type: 'tool.result', data: undefined }),
    ],
    'JSON is nested without end': [
      'layout.json',
      (pack) => writeFileSync(join(pack, 'artifacts/plan.json'), '['.repeat(200_000)),
    ],
    'an object is nested deeply': [
      'artifact.valid',
      (pack) => writeFileSync(join(pack, 'artifacts/plan.json'), '['.repeat(10_000) + ']'.repeat(10_000)),
    ],
    'a link leads out': ['layout.plain', (pack) => symlinkSync('/etc/hostname', join(pack, 'artifacts/link.json'))],
    'a folder is a link': [
      'layout.plain',
      (pack) => {
        renameSync(join(pack, 'artifacts'), join(pack, '../elsewhere'))
        symlinkSync('../elsewhere', join(pack, 'artifacts'))
      },
    ],
    'a link leads to itself': ['layout.plain', (pack) => symlinkSync('loop', join(pack, 'loop'))],
    'the pack is a link': [
      'layout.plain',
      (pack, folder) => {
        renameSync(pack, join(folder, 'real'))
        symlinkSync('real', pack)
      },
    ],
    'a pipe would never end': ['layout.plain', (pack) => execFileSync('mkfifo', [join(pack, 'artifacts/role.json')])],
    'a file has a name that leads up': ['layout.name', (pack) => writeFileSync(join(pack, 'a..b.json'), '{}')],
    'a file has a name that leads out elsewhere': [
      'layout.name',
      (pack) => writeFileSync(join(pack, 'a\\b.json'), '{}'),
    ],
    'a file can be run': ['layout.extension', (pack) => writeFileSync(join(pack, 'run.sh'), '')],
    'a file is larger than all may be': [
      'layout.size',
      (pack) => {
        writeFileSync(join(pack, 'artifacts/role.json'), '')
        truncateSync(join(pack, 'artifacts/role.json'), 2 ** 40)
      },
    ],
    'two files are larger together than all may be': [
      'layout.size',
      (pack) => {
        for (const name of ['role', 'role-2']) {
          writeFileSync(join(pack, `artifacts/${name}.json`), '')
          truncateSync(join(pack, `artifacts/${name}.json`), 26 * 2 ** 20)
        }
      },
    ],
    'there are too many files': [
      'layout.files',
      (pack) => {
        for (let i = 0; i < 1_001; i++) writeFileSync(join(pack, `${i}.json`), '{}')
      },
    ],
    'there are too many folders': [
      'layout.folders',
      (pack) => {
        for (let i = 0; i < 1_001; i++) mkdirSync(join(pack, `${i}`))
      },
    ],
    'a pointer leads nowhere': [
      'pointers.locator',
      (_, folder) => pointing(folder, { locator: 'event_id:nobody', status: 'PRESENT' }),
    ],
    'a pointer claims what its event does not show': [
      'pointers.event',
      (pack, folder) => {
        const [first] = readFileSync(join(pack, 'timeline/events.ndjson'), 'utf8').split('\n')
        pointing(folder, { locator: `event_id:${JSON.parse(first!).event_id}`, status: 'PRESENT' })
      },
    ],
    'a pointer is of a requirement that only objects have': [
      'pointers.requirement',
      (_, folder) => pointing(folder, { requirement_id: 'constructor', status: 'PRESENT' }),
    ],
    'a pointer leads out': [
      'pointers.path',
      (_, folder) => pointing(folder, { artifact_path: '../../../etc/passwd', status: 'PRESENT' }),
    ],
    'a pointer is neither there nor not': ['pointers.status', (_, folder) => pointing(folder, { status: 'PERHAPS' })],
    'the manifest knows the pointers by what is no checksum': [
      'pointers.sum',
      inManifest({ evidence_pointers: 'mine' }),
    ],
    'the pointers are broken': [
      'pointers.json',
      (_, folder) => writeFileSync(join(folder, 'evidence_pointers.json'), '{'),
    ],
    'a pointer has no text': [
      'pointers.checkable',
      (_, folder) => pointing(folder, { requirement_id: { toString: 1, valueOf: 1 }, status: 'PRESENT' }),
    ],
    'an event that pointers are held against is nested deeply': [
      'pointers.checkable',
      (pack) =>
        rewritten(
          pack,
          'timeline/events.ndjson',
          (text) => `{"event_id":${'['.repeat(20_000)}${']'.repeat(20_000)}}\n${text}`,
        ),
    ],
    'the pointers hide a decision': ['pointers.sum', (_, folder) => pointing(folder, { status: 'ABSENT' })],
    'the pointers were taken away': ['pointers.missing', (_, folder) => rmSync(join(folder, 'evidence_pointers.json'))],
    'an artifact tells two stories': [
      'layout.twice',
      (pack) => rewritten(pack, 'artifacts/plan.json', (text) => text.replace('{', '{"status":"failed",')),
    ],
    'a part of an artifact tells two stories, under a name that is written in another way': [
      'layout.twice',
      (pack) =>
        rewritten(pack, 'artifacts/plan.json', (text) => text.replace('"step_id"', '"step_\\u0069d":"x","step_id"')),
    ],
    'the manifest tells two stories': [
      'layout.twice',
      (pack) => rewritten(pack, 'manifest.json', (text) => text.replace('{', '{"pack_id":"another",')),
    ],
    'an event tells two stories': [
      'layout.twice',
      (pack) => rewritten(pack, 'timeline/events.ndjson', (text) => text.replace('{', '{"event_type":"other",')),
    ],
    'a pointer tells two stories': [
      'layout.twice',
      (_, folder) =>
        writeFileSync(join(folder, 'evidence_pointers.json'), '{"pointers":[{"status":"PRESENT","status":"ABSENT"}]}'),
    ],
    'the pointers are a pipe, which would never end': [
      'pointers.readable',
      (_, folder) => {
        rmSync(join(folder, 'evidence_pointers.json'))
        execFileSync('mkfifo', [join(folder, 'evidence_pointers.json')])
      },
    ],
    'the pointers are a link': [
      'pointers.readable',
      (_, folder) => {
        rmSync(join(folder, 'evidence_pointers.json'))
        symlinkSync('/etc/hostname', join(folder, 'evidence_pointers.json'))
      },
    ],
  }

  it.each(Object.entries(cases))('says so when %s', async (_, [rule, spoil]) => {
    const { outcome, rules, findings } = await spoilt(spoil)
    expect(outcome).toBe('NOT_ADMISSIBLE')
    expect(rules).toContain(rule)
    expect(JSON.stringify(findings)).not.toContain('root:') // nothing of what lies outside is shown
  })

  it.each([
    'pack_version',
    'pack_id',
    'created_at',
    'scenario_id',
    'generator.name',
    'generator.version',
    'generator.fingerprint',
    'compatibility.min_ruleset_version',
    'compatibility.max_ruleset_version',
    'artifacts_included',
  ])('says so when the manifest has no %s, or an empty one', async (path) => {
    const [field, part] = path.split('.') as [string, string?]
    for (const nothing of [undefined, '']) {
      const without = saying('manifest.json', (value) =>
        part === undefined
          ? { ...value, [field]: nothing }
          : { ...value, [field]: { ...(value[field] as JsonObject), [part]: nothing } },
      )
      const { findings } = await spoilt(without)
      expect(findings).toContainEqual(
        expect.objectContaining({ rule: 'manifest.field', path: `manifest.json:${path}` }),
      )
    }
  })

  it.each([
    ['artifacts/context.json', 'LG-01'],
    ['artifacts/plan.json', 'LG-01'],
    ['artifacts/trace.json', 'LG-01'],
    ['timeline/events.ndjson', 'LG-02'],
    ['artifacts/confirm.json', 'LG-03'],
    ['manifest.json', 'LG-04'],
    ['integrity/sha256sums.txt', 'LG-05'],
  ])('without %s does not find %s kept, and all else', async (path, guarantee) => {
    const folder = join(tempFolder(), 'run')
    cpSync(sound, folder, { recursive: true })
    rmSync(join(folder, 'pack', path))
    const { guarantees } = await verifyPack(folder)
    expect(Object.keys(guarantees).filter((id) => !guarantees[id])).toEqual([guarantee])
  })

  it('takes checksums in any order and with line ends of any kind, a root with a name beside it, and a call that was cut off', async () => {
    const { findings } = await spoilt((pack) => {
      tracing({ event_type: 'tool.call', data: {} })(pack)
      const sums = join(pack, 'integrity/sha256sums.txt')
      const lines = readFileSync(sums, 'utf8').trimEnd().split('\n')
      writeFileSync(sums, `${lines.toReversed().join('\r\n')}\r\n`)
      appendFileSync(join(pack, 'integrity/pack.sha256'), '  sha256sums.txt\n')
    })
    expect(findings).toEqual([])
  })

  it('names the line that is wrong', async () => {
    const { findings } = await spoilt((pack) =>
      rewritten(pack, 'timeline/events.ndjson', (text) => `\n{"a":1,"a":2}\nnonsense\n${text}`),
    )
    expect(findings.slice(0, 3)).toMatchObject([
      { rule: 'layout.twice', path: 'timeline/events.ndjson:2' },
      { rule: 'timeline.event', path: 'timeline/events.ndjson:2' },
      { rule: 'timeline.json', path: 'timeline/events.ndjson:3' },
    ])
  })

  it('says so when something executes after the end', async () => {
    const { rules } = await spoilt((pack) =>
      rewritten(pack, 'timeline/events.ndjson', (text) => {
        const lines = text.trim().split('\n')
        const last = JSON.parse(lines.find((line) => line.includes('"execution_started"'))!)
        const later = { ...last, event_id: NOBODY, timestamp: '2999-01-01T00:00:00.000000Z' }
        return [...lines, JSON.stringify(later)].join('\n')
      }),
    )
    expect(rules).toEqual(['pointers.after_end'])
  })

  it('says so when something executes after it was terminated', async () => {
    const { rules } = await spoilt((pack, folder) => {
      rewritten(pack, 'timeline/events.ndjson', (text) => {
        const executed = JSON.parse(text.split('\n').find((line) => line.includes('"execution_started"'))!)
        const terminated = { event_id: NOBODY, decision_kind: 'terminate', termination_reason: 'manual' }
        const later = [
          { ...executed, ...terminated, event_type: 'x', timestamp: '2999-01-01T00:00:00.000000Z' },
          { ...executed, timestamp: '2999-01-01T00:00:01.000000Z' },
        ]
        return text + later.map((event) => JSON.stringify(event)).join('\n')
      })
      pointing(folder, { requirement_id: 'RQ-D4-01', locator: `event_id:${NOBODY}`, status: 'PRESENT' })
    })
    expect(rules).toContain('pointers.after_end')
  })

  it('lets a way back execute after the end, once it was announced and under its own trace', async () => {
    const later = (at: number, event: object) =>
      JSON.stringify({ ...event, event_id: eventId(at), timestamp: `2999-01-01T00:00:0${at}.000000Z` })
    const rulesWith = async (own: 'announced' | 'late' | 'of another trace') => {
      const { rules } = await spoilt((pack) =>
        rewritten(pack, 'timeline/events.ndjson', (text) => {
          const lines = text.trim().split('\n')
          const executed = JSON.parse(lines.find((line) => line.includes('"execution_started"'))!)
          const payload = { ...executed.payload, trace_id: own === 'of another trace' ? 'x' : 'back' }
          const planned = { ...executed, event_family: 'compensation_plan', event_type: 'rollback_planned' }
          const back = later(own === 'late' ? 3 : 1, { ...planned, payload: { trace_id: 'back' } })
          return [...lines, ...[back, later(2, { ...executed, payload })].sort()].join('\n')
        }),
      )
      return rules
    }
    expect(await rulesWith('announced')).toEqual([])
    expect(await rulesWith('late')).toContain('pointers.after_end')
    expect(await rulesWith('of another trace')).toContain('pointers.after_end')
  })

  it('goes by the time that a timestamp means, not by how it is written', async () => {
    const stamped = async (stamps: readonly string[]) => {
      const { rules } = await spoilt((pack) =>
        rewritten(pack, 'timeline/events.ndjson', (text) => {
          const [line] = text.split('\n')
          const event = (timestamp: string, i: number) =>
            JSON.stringify({ ...JSON.parse(line!), timestamp, event_id: eventId(i) })
          return stamps.map(event).join('\n')
        }),
      )
      return rules.filter((rule) => rule.startsWith('timeline.'))
    }
    const rising = ['2026-01-01T01:59:59+02:00', '2026-01-01T00:00:00Z', '2026-01-01T00:00:00.5Z']
    expect(await stamped([...rising, '2026-01-01T00:00:00.500Z', '2026-01-01T00:00:00.51z'])).toEqual([])
    expect(await stamped(rising.toReversed())).toEqual(['timeline.order', 'timeline.order'])
    expect(await stamped(['2026-01-01T00:00:00Z', '2026-01-01T01:00:00+02:00'])).toEqual(['timeline.order'])
  })

  it('says so when a file cannot be read', async ({ skip }) => {
    if (process.getuid?.() === 0) skip('root can read every file')
    const { rules } = await spoilt((pack) => chmodSync(join(pack, 'artifacts/plan.json'), 0))
    expect(rules).toContain('layout.readable')
  })

  it('finds a pack without a folder around it sound', async () => {
    expect((await verifyPack(join(sound, 'pack'))).findings).toEqual([])
  })

  it('keeps its report short, whatever is wrong', async () => {
    const { findings } = await spoilt((pack) =>
      rewritten(pack, 'timeline/events.ndjson', () => 'nonsense\n'.repeat(50_000)),
    )
    expect(findings.length).toBeLessThan(300)
    expect(findings.at(-1)).toMatchObject({ rule: 'findings.more' })
  })

  it('looks for no more once its report is full, and at nothing that holds nothing', async () => {
    const parse = vi.spyOn(JSON, 'parse')
    onTestFinished(() => parse.mockRestore())
    const parsing = async (lines: string, path = 'timeline/events.ndjson') => {
      const before = parse.mock.calls.length
      const { rules } = await spoilt((pack) => appendFileSync(join(pack, path), lines))
      return { rules, times: parse.mock.calls.length - before }
    }
    const { times: sound } = await parsing('')
    expect(await parsing('\n \r\n'.repeat(10_000))).toEqual({ rules: ['integrity.sum'], times: sound })
    const nonsense = await parsing('nonsense\n'.repeat(10_000))
    expect(nonsense.rules.at(-1)).toBe('findings.more')
    expect(nonsense.times).toBeLessThan(sound + 300)
    const broken = await parsing('{"a":"a":1,"a"\n'.repeat(10_000), 'artifacts/other.ndjson')
    expect(broken.rules).toEqual(['layout.json', 'integrity.extra'])
    expect(broken.times).toBeLessThan(sound + 1_100)
  })

  it('says so of what is no folder at all, and throws nothing', async () => {
    expect((await verifyPack(join(tempFolder(), 'nowhere'))).outcome).toBe('NOT_ADMISSIBLE')
  })
})

function pointing(folder: string, pointer: object): void {
  const whole = { requirement_id: 'RQ-D2-01', artifact_path: 'timeline/events.ndjson', locator: '', ...pointer }
  writeFileSync(join(folder, 'evidence_pointers.json'), JSON.stringify({ pointers: [whole] }))
}

it('asks nothing about pointers of a pack whose manifest knows none', async () => {
  const { findings } = await spoilt((pack, folder) => {
    rewritten(
      pack,
      'manifest.json',
      inJson(({ evidence_pointers: _, ...rest }) => rest),
    )
    rmSync(join(folder, 'evidence_pointers.json'))
  })
  expect(findings).toEqual([])
})

it('tells the root of what it has read, by which a pack is another whose checksums were rewritten with its files', async () => {
  const { root } = await verifyPack(sound)
  expect(root).toBe(readFileSync(join(sound, 'pack/integrity/pack.sha256'), 'utf8').trim())
  const folder = join(tempFolder(), 'run')
  cpSync(sound, folder, { recursive: true })
  rewritten(join(folder, 'pack'), 'artifacts/plan.json', (text) => text.replace('"completed"', '"failed"'))
  const other = await verifyPack(folder)
  expect({ outcome: other.outcome, isOther: other.root !== root }).toEqual({ outcome: 'ADMISSIBLE', isOther: true })
})

it('tells another root where a file was changed, or one was put among the checksums and listed there', async () => {
  const { root } = await verifyPack(sound)
  const rootOf = async (spoil: (pack: string) => void) => {
    const folder = join(tempFolder(), 'run')
    cpSync(sound, folder, { recursive: true })
    spoil(join(folder, 'pack'))
    return verifyPack(folder)
  }
  expect((await rootOf((pack) => appendFileSync(join(pack, 'artifacts/plan.json'), ' '))).root).not.toBe(root)
  const added = await rootOf((pack) => {
    writeFileSync(join(pack, 'integrity/more.txt'), 'x')
    const sums = join(pack, 'integrity/sha256sums.txt')
    const lines = [...readFileSync(sums, 'utf8').trimEnd().split('\n'), `${sha256('x')}  integrity/more.txt`]
    const sorted = lines.sort((a, b) => (a.slice(66) < b.slice(66) ? -1 : 1)).join('\n')
    writeFileSync(sums, sorted)
    writeFileSync(join(pack, 'integrity/pack.sha256'), sha256(sorted))
  })
  expect({ outcome: added.outcome, isOther: added.root !== root }).toEqual({ outcome: 'ADMISSIBLE', isOther: true })
})
