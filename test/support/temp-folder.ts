import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { ownFolder } from './processes.ts'

let parent: string | undefined

/** A new, empty folder. All of a test file's folders are removed when the file has ended, however it ends. */
export function tempFolder(): string {
  parent ??= ownFolder('test')
  return mkdtempSync(join(parent, 'f-'))
}
