/** A user or a password as a URL has it, read; `refuse` makes the error for one that cannot be. */
export function credential(escaped: string, refuse: (message: string) => Error): string {
  try {
    return decodeURIComponent(escaped)
  } catch {
    throw refuse('has a % in its user or password that does not begin a character: write it as %25')
  }
}
