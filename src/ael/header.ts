export const isHeaderName = (name: string): boolean => /^[\w!#$%&'*+.^`|~-]+$/.test(name)

/** What goes over the wire as a header; anything else would only be refused when it is sent. */
export const isHeaderValue = (value: unknown): value is string =>
  typeof value === 'string' && /^[\t\x20-\x7e\x80-\xff]*$/.test(value)

/** Set by us, or able to confuse the other side about where a request ends. */
export const OWN_HEADERS: readonly string[] = [
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'accept-encoding',
  'upgrade',
  'te',
  'trailer',
  'expect',
]
