import { digestOf } from '../protocol/json.ts'

const LONGEST = 64

/** A tool's name as models may say it: letters, digits, _ and - only, at most 64 of them. */
export function wireName(name: string): string {
  const plain = name.replaceAll('.', '__')
  return plain.length <= LONGEST ? plain : `${plain.slice(0, LONGEST - 9)}_${digestOf(name).slice(-8)}`
}
