import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { problem } from '../protocol/problem.ts'
import type { Write } from './backend.ts'
import { badList, badName, isName, refuseUnlessObject, textOf, textOfChecked } from './check-input.ts'

/** A write's values as the JSON text that every member stores. */
export interface WriteTexts {
  readonly entry: string | undefined
  readonly inserts: readonly (readonly [string, string])[]
  readonly puts: readonly (readonly [string, string])[]
}

/** Refuses what no member may accept, and turns each value into text once. */
export function checkWrite(write: Write): WriteTexts {
  refuseUnlessObject('write', 'write', write)
  const problems: Problem[] = []
  for (const list of ['inserts', 'puts', 'deletes'] as const)
    if (!Array.isArray(write[list])) problems.push(badList(list, write[list]))
  if (problems.length > 0) throw new InvalidInput('write', problems)
  if (!isName(write.stream)) problems.push(badName('stream', write.stream))
  if (!Number.isSafeInteger(write.expected) || write.expected < 0)
    problems.push(problem('expected', 'revision', 'is not a revision', write.expected))
  if (write.fence !== undefined && !Number.isSafeInteger(write.fence))
    problems.push(problem('fence', 'token', 'is not a token', write.fence))
  if (write.forget !== undefined && (write.forget !== true || write.entry !== undefined))
    problems.push(problem('forget', 'type', 'must be true, without an entry', write.forget))
  const seen = new Set<string>()
  const claim = (list: string, key: string, i: number) => {
    if (!isName(key)) problems.push(badName(`${list}[${i}]`, key))
    else if (seen.has(key))
      problems.push({ path: `${list}[${i}]`, rule: 'disjoint', message: 'names a key twice', found: key })
    seen.add(key)
  }
  const claimPairs = (list: 'inserts' | 'puts') => {
    for (let i = 0; i < write[list].length; i++) {
      const pair = write[list][i]
      if (Array.isArray(pair)) claim(list, pair[0], i)
      else problems.push(problem(`${list}[${i}]`, 'type', 'is not a key and a value', pair))
    }
  }
  claimPairs('inserts')
  claimPairs('puts')
  for (let i = 0; i < write.deletes.length; i++) claim('deletes', write.deletes[i]!, i)
  if (problems.length > 0) throw new InvalidInput('write', problems)

  const text = write.checked ? textOfChecked : textOf
  const entry = write.entry === undefined ? undefined : text('entry', write.entry)
  const texts = (list: 'inserts' | 'puts') =>
    write[list].map(([key, value], i) => [key, text(`${list}[${i}]`, value)] as const)
  return { entry, inserts: texts('inserts'), puts: texts('puts') }
}
