import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { Ajv, type ErrorObject } from 'ajv'
import addFormats from 'ajv-formats'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Problem } from '../../src/protocol/errors.ts'
import { schemas } from '../../src/protocol/generated/schemas.ts'
import type { Kind } from '../../src/protocol/types.ts'
import { isValid, problems } from '../../src/protocol/validate.ts'
import { mutated } from './mutations.ts'

// Bare Ajv on the files as they are: neither the generator nor the explainer has touched what this validator reads.
const folder = join(import.meta.dirname, '../../schemas/mplp')
const ajv = new Ajv({ allErrors: true })
addFormats.default(ajv)
const ids = new Map<string, string>()
for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.json'),
)) {
  ajv.addSchema({ ...JSON.parse(readFileSync(join(folder, path), 'utf8')), $id: `file:///${path}` })
  ids.set(basename(path, '.schema.json'), `file:///${path}`)
}

const RUNS = 150

describe.each(Object.keys(schemas) as Kind[])('%s', (kind) => {
  const bare = ajv.getSchema(ids.get(kind) as string)
  if (bare === undefined) throw new Error(`no file for ${kind}`)

  it('accepts and refuses what Ajv does, and complains of the same places', () => {
    fc.assert(
      fc.property(mutated(kind), (document) => {
        const accepted = bare(document) as boolean
        expect(isValid(kind, document)).toBe(accepted)
        expect(problems(kind, document).map(ours).sort()).toEqual(theirs(bare.errors ?? []).sort())
      }),
      { numRuns: RUNS },
    )
  })
})

const RULES: Readonly<Record<string, string>> = {
  minLength: 'min_length',
  minItems: 'min_items',
  uniqueItems: 'unique_items',
  additionalProperties: 'extra_forbidden',
}

const ours = ({ path, rule }: Problem): string =>
  `${rule === 'unique_items' ? path.replace(/\[\d+\]$/, '') : path} ${rule}`

/** In our words; of a value of the wrong type, Ajv also says that it is none of the enum or not in the range. */
function theirs(errors: readonly ErrorObject[]): string[] {
  const mistyped = new Set(errors.filter(({ keyword }) => keyword === 'type').map(({ instancePath }) => instancePath))
  const told = errors
    .filter(({ keyword, instancePath }) => !BESIDES_TYPE.has(keyword) || !mistyped.has(instancePath))
    .map((error) => `${pathOf(error)} ${RULES[error.keyword] ?? error.keyword}`)
  return [...new Set(told)]
}

const BESIDES_TYPE = new Set(['enum', 'minimum', 'maximum'])

function pathOf({ instancePath, params }: ErrorObject): string {
  const steps = instancePath
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
  const last = params.missingProperty ?? params.additionalProperty
  if (last !== undefined) steps.push(last)
  return steps.reduce((path, step, index) => path + shownStep(step, index === 0, step === last), '')
}

function shownStep(step: string, first: boolean, isKey: boolean): string {
  if (!isKey && /^\d+$/.test(step)) return `[${step}]`
  if (/^[\w$]{1,60}$/.test(step)) return first ? step : `.${step}`
  const text = JSON.stringify(step.slice(0, 60))
  return step.length <= 60 ? `[${text}]` : `[${text}… (${step.length} characters)]`
}
