/** Redis itself answered, with an error: the command was not carried out. */
export const isReply = (error: unknown): error is Error => error instanceof Error && error.name === 'ReplyError'

/** The first word of an error reply, by which Redis tells them apart; empty for anything else. */
export function replyCode(error: unknown): string {
  if (!isReply(error)) return ''
  if (error.message.startsWith(FORBIDDEN_SCRIPT)) return 'NOPERM'
  return /^[A-Z]+/.exec(error.message)?.[0] ?? ''
}

/** How Redis 7.0 says that a script may not do something; later ones give it the same code as a command. */
const FORBIDDEN_SCRIPT = 'ERR The user executing the script '
