import { type FileHandle, open } from 'node:fs/promises'
import { onTestFinished, vi } from 'vitest'

/** What all open files have in common; a spy on it is gone with the test. */
export async function everyFile(): Promise<FileHandle> {
  onTestFinished(() => void vi.restoreAllMocks())
  const file = await open(import.meta.filename, 'r')
  await file.close()
  return Object.getPrototypeOf(file)
}
