/** Redis itself answered, with an error: the command was not carried out. */
export const isReply = (error: unknown): error is Error => error instanceof Error && error.name === 'ReplyError'

/** The first word of an error reply, by which Redis tells them apart; empty for anything else. */
export const replyCode = (error: unknown): string => (isReply(error) ? (/^[A-Z]+/.exec(error.message)?.[0] ?? '') : '')
