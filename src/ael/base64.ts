/** As RFC 4648 has it, with or without the padding. Of one character alone, nothing can be read: whoever decodes leaves it out without a word. */
export const isBase64 = (text: unknown): boolean =>
  typeof text === 'string' && /^[A-Za-z0-9+/]*={0,2}$/.test(text) && text.replace(/=+$/, '').length % 4 !== 1
