export const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT'

/** For a `catch`: nothing where there is no such file or folder. */
export function unlessMissing(error: unknown): undefined {
  if (!isMissing(error)) throw error
}
