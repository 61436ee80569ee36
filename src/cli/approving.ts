/** The command by which somebody agrees, in a role that may: without one they would do so as `user`, and be refused. */
export const approving = (confirm: string, roles: readonly string[] | undefined): string =>
  `mplp confirm approve ${confirm}${roles?.[0] === undefined ? '' : ` --role ${quoted(roles[0])}`}`

/** As a shell takes it for one word. */
export const quoted = (word: string): string => (/^[\w.:@-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)
