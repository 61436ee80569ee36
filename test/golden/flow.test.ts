import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { inMemory, ownDriver, readFlows, runGolden } from '../../src/golden/golden.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { tempFolder } from '../support/temp-folder.ts'

type Files = { readonly [path: string]: string }

/** A folder with one flow in it. */
function flowFolder(files: Files): string {
  const root = tempFolder()
  mkdirSync(join(root, 'area/flow'), { recursive: true })
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, 'area/flow', path)), { recursive: true })
    writeFileSync(join(root, 'area/flow', path), text)
  }
  return root
}

const HEAD = 'proves: something\n'
const SCRIPT = 'acts: [load]\n'
const RUNS = 'proves: something\nneeds: [execution]\n'
const PLAN = JSON.stringify({ steps: [{ step_id: 'a' }] })

describe('a flow is refused before anything runs, with file and line, when', () => {
  const cases: { readonly [title: string]: readonly [where: string, says: string, files: Files] } = {
    'it has no head': ['flow.yaml', 'is missing', { 'script.yaml': SCRIPT }],
    'it has no script': ['script.yaml', 'is missing', { 'flow.yaml': HEAD }],
    'its head is no YAML': [
      'flow.yaml:3',
      'a list is begun and not ended; end it with ]',
      { 'flow.yaml': `${HEAD}needs: [\n` },
    ],
    'its script is no YAML': [
      'script.yaml:3',
      'a list begins where none can',
      { 'flow.yaml': HEAD, 'script.yaml': 'acts:\n  - load\n - verify\n' },
    ],
    'a key stands there twice': [
      'flow.yaml:2',
      'the same name stands there twice',
      { 'flow.yaml': `${HEAD}proves: another\n` },
    ],
    'aliases would make it endless': [
      'script.yaml:3',
      'aliases, as *name is one, repeat more than 100 times',
      {
        'flow.yaml': HEAD,
        'script.yaml': `a: &a [x,x,x]\nb: &b [${'*a,'.repeat(9)}*a]\nacts: [${'*b,'.repeat(99)}*b]\n`,
      },
    ],
    'an alias stands in what it stands for': [
      'script.yaml:3',
      '*all stands in itself',
      { 'flow.yaml': HEAD, 'script.yaml': 'acts:\n  - expect: &all\n      plan: *all\n' },
    ],
    'it expects something in a file that nobody reads': [
      'expected/plan.yaml',
      'is nothing to expect',
      { 'flow.yaml': HEAD, 'script.yaml': SCRIPT, 'expected/plan.yaml': 'status: draft\n' },
    ],
    'it proves nothing': ['flow.yaml:1', 'proves', { 'flow.yaml': 'needs: [conformance]\n', 'script.yaml': SCRIPT }],
    'it is no map': ['flow.yaml:1', 'must be a map', { 'flow.yaml': '- a\n', 'script.yaml': SCRIPT }],
    'its head has a word too many': ['flow.yaml:2', 'colour', { 'flow.yaml': `${HEAD}colour: red\n` }],
    'it needs what nobody offers': ['flow.yaml:4', 'magic', { 'flow.yaml': `${HEAD}needs:\n  - drift\n  - magic\n` }],
    'it has no acts': ['script.yaml:1', 'at least one act', { 'flow.yaml': HEAD, 'script.yaml': 'acts: []\n' }],
    'an act has no verb that is known': [
      'script.yaml:3',
      'dance is not a verb',
      { 'flow.yaml': HEAD, 'script.yaml': 'acts:\n  - load\n  - dance\n' },
    ],
    'an act has two verbs': [
      'script.yaml:2',
      'one verb',
      { 'flow.yaml': HEAD, 'script.yaml': 'acts:\n  - { load: null, verify: null }\n' },
    ],
    'a verb is named like something every object has': [
      'script.yaml:2',
      'constructor is not a verb',
      { 'flow.yaml': HEAD, 'script.yaml': 'acts:\n  - constructor\n' },
    ],
    'an act needs what the head does not name': [
      'script.yaml:2',
      'crash needs recovery',
      { 'flow.yaml': HEAD, 'script.yaml': 'acts:\n  - crash\n' },
    ],
    'a refusal is wanted of what nobody refuses': [
      'script.yaml:2',
      'nothing that a runtime refuses',
      { 'flow.yaml': HEAD, 'script.yaml': 'acts:\n  - verify:\n    refused: [x]\n' },
    ],
    'a reference leads nowhere': [
      'script.yaml:3',
      '$plan.plan_id leads nowhere',
      { 'flow.yaml': HEAD, 'script.yaml': 'acts:\n  - load\n  - remove: { kind: plan, id: $plan.plan_id }\n' },
    ],
    'a reference ends where a place in a list should stand': [
      'script.yaml:2',
      '$plan.steps. leads nowhere',
      {
        'flow.yaml': HEAD,
        'input/plan.json': '{ "steps": [{ "step_id": "a" }] }',
        'script.yaml': 'acts:\n  - add: { kind: step, document: $plan.steps. }\n',
      },
    ],
    'an input is loaded that is not there': [
      'script.yaml:2',
      'there is no input/plan.json',
      { 'flow.yaml': HEAD, 'script.yaml': 'acts:\n  - load: [plan]\n' },
    ],
    'an input shall be refused that is not there': [
      'script.yaml:2',
      'there is no input/plan.json',
      { 'flow.yaml': HEAD, 'script.yaml': 'acts:\n  - load: [plan]\n    refused: [schema]\n' },
    ],
    'an input is no JSON': [
      'input/plan.json:3',
      '',
      { 'flow.yaml': HEAD, 'script.yaml': SCRIPT, 'input/plan.json': '{\n  "a": 1,\n  b\n}' },
    ],
    'an input is cut off': [
      'input/plan.json:2',
      '',
      { 'flow.yaml': HEAD, 'script.yaml': SCRIPT, 'input/plan.json': '{\n"a"' },
    ],
    'an expected event is no JSON': [
      'expected/events.ndjson:2',
      '',
      { 'flow.yaml': HEAD, 'script.yaml': SCRIPT, 'expected/events.ndjson': '{}\n{\n' },
    ],
    'an expected document is of no kind, so that nobody would look at it': [
      'expected/plans.json',
      'is nothing to expect',
      { 'flow.yaml': HEAD, 'script.yaml': SCRIPT, 'expected/plans.json': '{}' },
    ],
    'an expected document has a name that says nothing of its place': [
      'expected/plan-second.json',
      'is nothing to expect',
      { 'flow.yaml': HEAD, 'script.yaml': SCRIPT, 'expected/plan-second.json': '{}' },
    ],
    'a step is scripted that the plan does not have': [
      'script.yaml:2',
      'step b is bound, but the plan has no such step',
      {
        'flow.yaml': RUNS,
        'script.yaml':
          'acts:\n  - submit: { plan: $plan, bindings: { steps: { b: { action_type: x, params: {} } } } }\n',
        'input/plan.json': PLAN,
      },
    ],
    'an answer is given that nobody asks for': [
      'script.yaml:2',
      'no step of the script calls typo',
      { 'flow.yaml': RUNS, 'script.yaml': 'answers:\n  typo: [{ output: 1 }]\nacts: [load]\n' },
    ],
    'an answer is none': [
      'script.yaml:2',
      'must be a list of output, error (a text, with retryable or not), hang (true) or late',
      { 'flow.yaml': RUNS, 'script.yaml': 'answers:\n  a: [{ shrug: 1 }]\nacts: [load]\n' },
    ],
    'something is expected that is nothing': [
      'script.yaml:3',
      'mood is nothing to expect',
      { 'flow.yaml': HEAD, 'script.yaml': 'acts:\n  - load\n  - expect: { mood: good }\n' },
    ],
    'a run is to settle in a way that there is not': [
      'script.yaml:2',
      'ended or waiting',
      { 'flow.yaml': RUNS, 'script.yaml': 'acts:\n  - settle: nicely\n' },
    ],
    'arrows are forbidden from a status that there is not': [
      'script.yaml:2',
      'plan has no status asleep',
      { 'flow.yaml': HEAD, 'script.yaml': 'acts:\n  - forbidden: { kind: plan, id: x, from: asleep }\n' },
    ],
    'an input goes in nowhere, because a load of all takes kinds': [
      'input/plann.json',
      'no act names it',
      { 'flow.yaml': HEAD, 'script.yaml': SCRIPT, 'input/plan.json': PLAN, 'input/plann.json': PLAN },
    ],
    'an input goes in nowhere, because others are named': [
      'input/plan-2.json',
      'no act names it',
      {
        'flow.yaml': HEAD,
        'script.yaml': 'acts:\n  - load: [plan]\n  - expect: { plan: { title: $facts.title } }\n',
        'input/plan.json': PLAN,
        'input/plan-2.json': PLAN,
        'input/facts.json': '{ "title": "A" }',
      },
    ],
    'an input is of another kind than JSON': [
      'input/plan.yaml',
      'would go in nowhere',
      { 'flow.yaml': HEAD, 'script.yaml': SCRIPT, 'input/NOTES.md': '', 'input/plan.yaml': 'steps: []' },
    ],
    'an invariant has an unknown rule': [
      'invariants.yaml:2',
      'rule',
      {
        'flow.yaml': HEAD,
        'script.yaml': SCRIPT,
        'invariants.yaml':
          '- { id: a, scope: plan, path: title, rule: exists }\n- { id: b, scope: plan, path: x, rule: sparkles }\n',
      },
    ],
    'an invariant has a path that means nothing': [
      'invariants.yaml:2',
      'path',
      {
        'flow.yaml': HEAD,
        'script.yaml': SCRIPT,
        'invariants.yaml': 'invariants:\n  - { id: b, scope: plan, path: "steps[first]", rule: exists }\n',
      },
    ],
    'an invariant speaks of what no flow has, so that it would always hold': [
      'invariants.yaml:1',
      'scope tool_event is nothing that a flow has',
      {
        'flow.yaml': HEAD,
        'script.yaml': SCRIPT,
        'invariants.yaml': '- { id: b, scope: tool_event, path: tool_id, rule: exists }\n',
      },
    ],
    'an input says two things by one name, of which JSON keeps the last': [
      'input/context.json',
      'status stands twice',
      { 'flow.yaml': HEAD, 'script.yaml': SCRIPT, 'input/context.json': '{ "status": "draft", "status": "active" }' },
    ],
    'an event that is expected is none': [
      'expected/events.ndjson:2',
      'must be an object',
      { 'flow.yaml': HEAD, 'script.yaml': SCRIPT, 'expected/events.ndjson': '{ "event_type": "a" }\nnull\n' },
    ],
    'an event that is expected says two things by one name': [
      'expected/events.ndjson:1',
      'event_type stands twice',
      {
        'flow.yaml': HEAD,
        'script.yaml': SCRIPT,
        'expected/events.ndjson': '{ "event_type": "a", "event_type": "b" }',
      },
    ],
    'a file lies where its inputs belong': [
      'input',
      'cannot be read (ENOTDIR)',
      { 'flow.yaml': HEAD, 'script.yaml': SCRIPT, input: '' },
    ],
    'a file lies where its files belong': [
      'files',
      'cannot be read (ENOTDIR)',
      { 'flow.yaml': HEAD, 'script.yaml': SCRIPT, files: '' },
    ],
    'an invariant has an unknown scope': [
      'invariants.yaml:1',
      'scope',
      {
        'flow.yaml': HEAD,
        'script.yaml': SCRIPT,
        'invariants.yaml': '- { id: b, scope: moon, path: a, rule: exists }\n',
      },
    ],
  }

  it.each(Object.entries(cases))('%s', async (_, [where, says, files]) => {
    const refusal = await readFlows(flowFolder(files)).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(InvalidInput)
    const [problem] = (refusal as InvalidInput).problems
    expect(problem?.path).toBe(`area/flow/${where}`)
    expect(problem?.message).toContain(says)
    expect(problem?.message).not.toMatch(/at line/) // that is where the path leads
  })

  it.each(['invariant.yaml', 'invariants.yml', 'expect/plan.json', 'File/a.md', 'script.json'])(
    'there is %s, which nobody would look at',
    async (path) => {
      const refusal = readFlows(flowFolder({ 'flow.yaml': HEAD, 'script.yaml': SCRIPT, 'NOTES.md': '', [path]: '[]' }))
      await expect(refusal).rejects.toMatchObject({
        problems: [{ path: `area/flow/${path.split('/')[0]}`, rule: 'enum' }],
      })
    },
  )

  const slips: readonly (readonly [act: string, says: string])[] = [
    ['move:', 'move must be an object'],
    ['move: { kind: plan, id: x }', 'move.to is missing'],
    ['move: { kind: plan, id: x, to: draft, form: approved }', 'move.form is not known'],
    ['edit: { kind: plan, id: x, set: title }', 'edit.set must be an object'],
    ['add: { kind: plan }', 'add.document is missing'],
    ['depend: { from: x }', 'depend.to is missing'],
    ['signal:', 'signal must be an object'],
    ['decide: { status: approved }', 'decide.decided_by_role is missing'],
    ['disk: { a.md: 5 }', 'disk.a.md must be text or null'],
    ['disk: { ../a.md: text }', 'disk: ../a.md must be a path below the root, without ..'],
    ['want: { /a.md: text }', 'want: /a.md must be a path below the root, without ..'],
    ['snapshot:', 'snapshot must be text that is not empty'],
    ['crash: twice', 'crash takes nothing'],
    ['expect: { files: [a.md] }', 'expect.files must be an object'],
    ['expect: { breaches: }', 'expect.breaches must be a list of texts'],
    ['expect:', 'expect must be an object'],
    ['expect: {}', 'expect names nothing'],
    ['expect: { plan-0: }', 'plan-0 is nothing to expect'],
    ['expect: { plan-first: approved }', 'plan-first is nothing to expect'],
    ['told: []', 'told names nothing'],
  ]
  it.each(slips)('a verb is given what it cannot take: %s', async (act, says) => {
    const needs = 'needs: [execution, approval, recovery, rollback, invariants, drift]\n'
    const script = `acts:\n  - load\n  - ${act}\n`
    const refusal = readFlows(flowFolder({ 'flow.yaml': HEAD + needs, 'script.yaml': script }))
    await expect(refusal).rejects.toMatchObject({
      problems: [{ path: 'area/flow/script.yaml:3', message: expect.stringContaining(says) }],
    })
  })

  it.each([
    '{ hang: false }',
    '{ error: 5 }',
    '{ error: no, retryable: often }',
    '{ output: 1, retryable: true }',
    '{}',
  ])('an answer is %s', async (answer) => {
    const bound = 'bindings: { steps: { a: { action_type: a, params: {} } } }'
    const script = `answers:\n  a: [${answer}]\nacts:\n  - submit: { plan: $plan, ${bound} }\n`
    const refusal = readFlows(flowFolder({ 'flow.yaml': RUNS, 'script.yaml': script, 'input/plan.json': PLAN }))
    await expect(refusal).rejects.toMatchObject({
      problems: [{ path: 'area/flow/script.yaml:2', message: expect.stringContaining('a must be a list of') }],
    })
  })

  it('a verb is given what it cannot take, also where it wants to be refused', async () => {
    const script = 'acts:\n  - move:\n    refused: [schema]\n'
    await expect(readFlows(flowFolder({ 'flow.yaml': HEAD, 'script.yaml': script }))).rejects.toThrow(InvalidInput)
  })

  it.each(['input/plan.json', 'expected/plan.json', 'README.md'])(
    'no area is around it, and it is not taken for a fixture because of %s',
    async (path) => {
      const root = flowFolder({ 'flow.yaml': HEAD, 'script.yaml': SCRIPT, [path]: '{}' })
      await expect(readFlows(join(root, 'area'))).rejects.toMatchObject({ problems: [{ path: 'flow', rule: 'area' }] })
    },
  )

  it('not because of what a folder hides beside it, as a repository does', async () => {
    const root = flowFolder({ 'flow.yaml': HEAD, 'script.yaml': SCRIPT, '.idea/x': '' })
    for (const hidden of ['.git/hooks', 'area/.cache']) mkdirSync(join(root, hidden), { recursive: true })
    expect((await readFlows(root)).map(({ name }) => name)).toEqual(['area/flow'])
  })

  it('another one beside it is sound: none of them runs', async () => {
    const root = flowFolder({ 'flow.yaml': HEAD, 'script.yaml': SCRIPT, 'input/context.json': '{}' })
    mkdirSync(join(root, 'area/worse'))
    let opened = 0
    const driver = ownDriver({
      async open() {
        opened++
        return inMemory(memoryBackend())
      },
    })
    await expect(runGolden({ flows: root, driver, backends: ['memory'] })).rejects.toThrow('area/worse/flow.yaml')
    expect(opened).toBe(0)
  })
})

const META = { protocol_version: '1.0.0', schema_version: '1.0.0' }
const CONTEXT = {
  $comment: 'as the protocol’s own fixtures have it',
  meta: { ...META, tags: ['a', 'b'], cross_cutting: ['learning-feedback'] },
  context_id: '3c9a2f7e-0b1d-4e55-9a52-7f1f0a6f2a10',
  root: { domain: 'oddities', environment: 'test', entry_point: 'main' },
  title: ' ',
  status: 'draft',
  tags: [],
  constraints: { deep: { deeper: [{ deepest: 1 }] } },
}
const PLANNED = {
  meta: META,
  plan_id: '7e5f3a52-3f3a-4c1e-8a6a-2f4f4c1d9e01',
  context_id: CONTEXT.context_id,
  title: 'Odd',
  objective: 'To be seen for the first time',
  status: 'draft',
  steps: [
    { step_id: '0d4c2b1a-9f8e-4d7c-8b6a-5f4e3d2c1b0a', description: 'one', status: 'pending', order_index: 1 },
    { step_id: '1d4c2b1a-9f8e-4d7c-8b6a-5f4e3d2c1b0a', description: 'two', status: 'completed', agent_role: 'a role' },
  ],
}

describe('fixtures as the protocol lays them out', () => {
  const context = { ...CONTEXT, title: 'A title' }
  const other = { ...context, context_id: '4c9a2f7e-0b1d-4e55-9a52-7f1f0a6f2a10' }
  const { order_index: _, ...bare } = PLANNED.steps[0]!
  const fixture = (more: Files = {}): string => {
    const root = tempFolder()
    const files: Files = {
      'input/context.json': JSON.stringify(context),
      'input/plan.json': JSON.stringify(PLANNED),
      'expected/context.json': JSON.stringify(other),
      'expected/plan.json': JSON.stringify({
        ...PLANNED,
        context_id: other.context_id,
        steps: [bare, PLANNED.steps[1]],
      }),
      'invariants.yaml': '- { id: few, scope: plan, path: steps, rule: min-length(2), description: few, note: none }\n',
      'README.md': '# A fixture\n',
      ...more,
    }
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(root, 'flow-99-odd', path)), { recursive: true })
      writeFileSync(join(root, 'flow-99-odd', path), text)
    }
    return root
  }
  const verdict = async (root: string) => {
    const driver = ownDriver({ open: async () => inMemory(memoryBackend()) })
    const { results } = await runGolden({ flows: root, driver, backends: ['memory'] })
    return results.map(({ flow, reason, status }) => `${flow}: ${reason ?? status}`)
  }

  it('need no script: what is expected must come out, ids and times apart, and may have more', async () => {
    expect(await verdict(fixture())).toEqual(['fixtures/flow-99-odd: passed'])
  })

  it('fail when something comes out otherwise, is not there, or breaks an invariant of the protocol', async () => {
    const plan = { ...PLANNED, objective: 'Another' }
    expect(await verdict(fixture({ 'expected/plan.json': JSON.stringify(plan) }))).toEqual([
      'fixtures/flow-99-odd: expected/plan.json: objective must be "Another", found "To be seen for the first time"',
    ])
    expect(await verdict(fixture({ 'expected/confirm.json': '{}' }))).toEqual([
      'fixtures/flow-99-odd: expected/confirm.json: there is no such confirm',
    ])
    const nowhere = { ...context, root: { ...context.root, domain: ' ' } }
    expect(
      await verdict(fixture({ 'input/context.json': JSON.stringify(nowhere), 'expected/context.json': '{}' })),
    ).toEqual([expect.stringContaining('invariant root_domain_must_be_non_empty: context.root.domain')])
  })

  it('are refused like any other for a rule that means nothing', async () => {
    const rules =
      '- { id: a, scope: plan, path: steps, rule: exists }\n- { id: b, scope: plan, path: steps, rule: "all(done)" }\n'
    await expect(readFlows(fixture({ 'invariants.yaml': rules }))).rejects.toMatchObject({
      problems: [{ path: 'flow-99-odd/invariants.yaml:2' }],
    })
  })
})

/** Whether a flow that only loads these two passes under one invariant, and why not. */
async function under(scope: string, path: string, rule: string, more: Files = {}): Promise<string> {
  const root = flowFolder({
    ...more,
    'flow.yaml': HEAD,
    'script.yaml': SCRIPT,
    'input/context.json': `\uFEFF${JSON.stringify(CONTEXT)}`,
    'input/plan.json': JSON.stringify(PLANNED),
    'invariants.yaml': JSON.stringify([{ id: 'odd', scope, path, rule, description: 'never seen before' }]),
  })
  const driver = ownDriver({ open: async () => inMemory(memoryBackend()) })
  const { results } = await runGolden({ flows: root, driver, backends: ['memory'] })
  return results[0]!.reason ?? results[0]!.status
}

describe('every rule of the vocabulary, on documents that the runner has never seen,', () => {
  const holds: readonly (readonly [scope: string, path: string, rule: string])[] = [
    ['context', 'context_id', 'uuid-v4'],
    ['plan', 'steps[*].step_id', 'uuid-v4'],
    ['plan', 'steps[1].agent_role', 'non-empty-string'],
    ['plan', 'steps[*].agent_role', 'non-empty-string'], // where it is not there, nothing is said
    ['context', 'constraints.deep.deeper[0].deepest', 'exists'],
    ['context', 'constraints.deep.deeper[*].deepest', 'positive-integer'],
    ['context', 'owner_role', 'exists'], // leads nowhere, so it is silent
    ['plan', 'context_id', 'eq(context.context_id)'],
    ['context', 'meta.tags[1]', 'eq("b")'],
    ['plan', 'steps', 'min-length(2)'],
    ['context', 'meta.tags', 'min-length(2)'],
    ['plan', 'steps[*].status', 'enum(pending, completed)'],
    ['plan', 'status', 'one-of(["draft","proposed"])'],
    ['plan', 'steps[0].order_index', 'positive-integer'],
    ['plan', 'title', 'optional-string'],
    ['plan', 'objective', 'if(status == "draft", non-empty-string)'],
    ['plan', 'objective', 'if(status == "completed", uuid-v4)'],
    ['plan', 'title', 'if(exists(steps), min-length(3))'],
    ['trace', 'events', 'min-length(1)'], // there is none, so it is silent
    ['event', 'timestamp', 'iso-datetime'],
    ['event', 'event_family', 'enum(graph_update,pipeline_stage)'],
    ['plan', 'steps.length', 'exists'], // a property of a list leads nowhere
  ]
  it.each(holds)('holds for %s %s %s', async (scope, path, rule) => {
    expect(await under(scope, path, rule)).toBe('passed')
  })

  const breaks: readonly (readonly [scope: string, path: string, rule: string, says: string])[] = [
    ['context', 'title', 'uuid-v4', 'context.title must be a UUID v4'],
    ['context', 'title', 'non-empty-string', 'context.title must be a string that is not blank'],
    ['plan', 'steps[*].step_id', 'eq("x")', 'plan.steps[0].step_id must equal "x"'],
    ['plan', 'steps[1].description', 'eq(plan.steps[0].description)', 'plan.steps[1].description must equal'],
    ['plan', 'title', 'eq(confirm.status)', 'plan.title must equal confirm.status'],
    ['plan', 'steps', 'min-length(3)', 'plan.steps must have a length of at least 3'],
    ['plan', 'steps[*].status', 'enum(pending)', 'plan.steps[1].status must be one of pending'],
    ['plan', 'status', 'one-of(["approved"])', 'plan.status must be one of approved'],
    ['plan', 'title', 'iso-datetime', 'plan.title must be an ISO date-time'],
    ['plan', 'title', 'positive-integer', 'plan.title must be a positive integer'],
    ['plan', 'steps[0].order_index', 'optional-string', 'plan.steps[0].order_index must be a string'],
    ['plan', 'title', 'if(status == "draft", uuid-v4)', 'plan.title must be a UUID v4'],
    ['event', 'event_type', 'uuid-v4', 'event.event_type must be a UUID v4'],
  ]
  it.each(breaks)('breaks for %s %s %s', async (scope, path, rule, says) => {
    expect(await under(scope, path, rule)).toContain(`invariant odd: ${says}`)
  })
  it('is asked of each document of its kind, beside those that it names', async () => {
    const plan_id = '8e5f3a52-3f3a-4c1e-8a6a-2f4f4c1d9e01'
    const steps = PLANNED.steps.map((step) => ({ ...step, step_id: step.step_id.replace('d', 'e') }))
    const confirm = {
      ...{ meta: META, confirm_id: '9e5f3a52-3f3a-4c1e-8a6a-2f4f4c1d9e01', status: 'pending' },
      ...{
        target_type: 'plan',
        target_id: plan_id,
        requested_by_role: 'planner',
        requested_at: '2026-01-01T00:00:00Z',
      },
    }
    const more = {
      'input/plan-2.json': JSON.stringify({ ...PLANNED, plan_id, title: 'Another', steps }),
      'input/confirm.json': JSON.stringify(confirm),
    }
    const odd = (scope: string, path: string, rule: string) => under(scope, path, rule, more)
    expect(await odd('plan', 'title', 'eq("Odd")')).toBe(
      'invariant odd: plan-2.title must equal "Odd", found "Another"',
    )
    expect(await odd('plan', 'context_id', 'eq(context.context_id)')).toBe('passed')
    expect(await odd('confirm', 'target_id', 'eq(plan.plan_id)')).toBe('passed')
    expect(await odd('event', 'project_id', 'eq(plan.plan_id)')).toContain('must equal plan.plan_id')
  })
})
