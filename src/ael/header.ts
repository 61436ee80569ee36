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

/** An environment holds paths and modes too, and headers versions; only what is called a secret is treated as one. */
export const SECRET_NAME = /KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|SIGNATURE/i

/** A server that repeats a header may leave its scheme away, say what Basic wraps, or take one of several values: a cookie, a signature. */
export function partsOf(header: string): readonly string[] {
  const [, scheme = '', rest = ''] = /^(\S+)\s+(.*)$/.exec(header) ?? []
  const basic = /^basic$/i.test(scheme) ? Buffer.from(rest, 'base64').toString() : ''
  const values = header.split(/[;,]\s*/).map((part) => part.slice(part.indexOf('=') + 1))
  return [header, rest, basic, basic.slice(basic.indexOf(':') + 1), ...values].filter((part) => part !== '')
}
