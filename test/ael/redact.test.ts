import { inspect } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { finalFailure, toActionError } from '../../src/ael/failure.ts'
import { REDACTED, redactor } from '../../src/ael/redact.ts'
import {
  ActionError,
  ApprovalNeeded,
  InvalidInput,
  Refused,
  RuleViolation,
  Unavailable,
} from '../../src/protocol/errors.ts'
import type { Json } from '../../src/protocol/json.ts'

const shapes = redactor()

describe('redactor', () => {
  it.each([
    'sk-proj-abcDEF123456ghiJKL789',
    'sk-ant-api03-AbCdEf0123456789-xyz',
    'sk_live_51Habcdefghij0123456789',
    'AIzaSyA0123456789abcdefghijklmnopqrstuv',
    'ya29.a0AfH6SMBx0123456789abcdef',
    'AKIAIOSFODNN7EXAMPLE',
    'ghp_0123456789abcdefghijklmnopqrstuvwxyz',
    'github_pat_11ABCDEFG0123456789_abcdefghij',
    'glpat-0123456789abcdefghij',
    'xoxb-123456789012-abcdefghij',
    'npm_0123456789abcdefghijklmnopqrstuvwxyz',
    'hf_abcdefghijklmnopqrstuvwxyz0123456789',
    'SG.abcdefghijklmnop0123.ABCDEFGHIJKLMNOPQRST',
    'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def_ghi',
    '-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/=\nabc\n-----END RSA PRIVATE KEY-----',
    '-----BEGIN PRIVATE KEY-----\nMIIEow without an end',
  ])('takes %s out of a text by its shape', (key) => {
    expect(shapes.text(`before ${key} after`)).toMatch(/^before \[redacted\]/)
    expect(shapes.text(`"${key}"`)).toBe(`"${REDACTED}"`)
  })

  it.each([
    ['Authorization: Bearer abcdef', 'Authorization: Bearer [redacted]'],
    ['authorization: Basic dXNlcjpwYXNz', 'authorization: Basic [redacted]'],
    ['got bearer a1b2c3d4e5f6g7h8', 'got bearer [redacted]'],
    ['postgres://app:hunter22@db:5432/x', 'postgres://[redacted]@db:5432/x'],
    ['redis://:hunter@22@db/0?a=b@c', 'redis://[redacted]@db/0?a=b@c'],
    ['https://x.test/a?key=abc123&b=2', 'https://x.test/a?key=[redacted]&b=2'],
    ['/a?access_token=abc', '/a?access_token=[redacted]'],
  ])('takes the secret out of %s', (text, clean) => {
    expect(shapes.text(text)).toBe(clean)
  })

  it.each([
    'a basic understanding of bearer authentication',
    'sk-learn-contrib-extensions are libraries',
    'https://medium.com/@somebody/post?page=2',
    'ssh://git@github.com/a/b.git',
    'the monkey=banana; key=value',
    'ask-me-anything-about-this-long-name',
  ])('leaves %s alone', (text) => {
    expect(shapes.text(text)).toBe(text)
  })

  it('takes out what it was told of, also in a URL, in base64 and inside JSON text', () => {
    const secret = 'p&ss "w"/rd'
    const { text } = redactor(() => [secret])
    const disguises = [
      secret,
      encodeURIComponent(secret),
      JSON.stringify(secret).slice(1, -1),
      Buffer.from(secret).toString('base64'),
    ]
    for (const disguise of disguises) expect(text(`x ${disguise} y`)).not.toContain(disguise.replace(/=+$/, ''))
  })

  it.each([
    ['aws/K7MDENG+bPx=', 'aws\\/K7MDENG+bPx=', 'as PHP writes JSON'],
    ['a<b>&c-42', 'a\\u003cb\\u003E\\u0026c-42', 'as Go writes JSON'],
    ['p\u00e4ssw\u00f6rd \ud83d\ude00', 'p\\u00e4ssw\\u00F6rd \\uD83D\\ude00', 'as Python writes JSON'],
    ['say "x" \\ \n7', JSON.stringify(JSON.stringify('say "x" \\ \n7')).slice(3, -3), 'in JSON within JSON'],
    ["p@ss!w*(1)'~ 2", new URLSearchParams({ a: "p@ss!w*(1)'~ 2" }).toString().slice(2), 'in a form'],
    ["p@ss'(1)", new URL("http://x.test/?p@ss'(1)").search.slice(1), 'in a query that escapes no more than it must'],
    ['\\\\share\\x1', JSON.stringify('\\\\share\\x1').slice(1, -1), 'with backslashes beside each other'],
  ])('takes %j out of %s, %s', (secret, spelling) => {
    const { text } = redactor(() => [secret])
    for (const one of [secret, spelling]) expect(text(`<${one}>`)).toBe(`<${REDACTED}>`)
  })

  it.each(['u', 'us', 'use', 'user'])('takes it out of a Basic header of %s, in either alphabet', (user) => {
    const secret = 'topsecret-pass>>??word'
    const { text } = redactor(() => [secret])
    for (const alphabet of ['base64', 'base64url'] as const) {
      const header = Buffer.from(`${user}:${secret}!`).toString(alphabet)
      const said = text(`it said ${header} there`)
      expect(said).toContain(REDACTED)
      expect(Buffer.from(said.replace(REDACTED, ''), alphabet).toString()).not.toContain('secret')
    }
    expect(text(encodeURIComponent(secret).toLowerCase())).toBe(REDACTED)
  })

  it('knows a secret also without the space or line end around it, which is not sent along', () => {
    const { text } = redactor(() => [' the-secret\n', '     \n'])
    expect(text('Bearer the-secret')).toBe(`Bearer ${REDACTED}`)
    expect(text('nothing     \nto hide')).toBe('nothing     \nto hide')
  })

  it('takes out the others where one of them is not set', () => {
    const redact = redactor(() => [undefined as never, 'the-secret-4711'])
    for (let i = 0; i < 2; i++) expect(redact.text('it is the-secret-4711')).toBe(`it is ${REDACTED}`)
  })

  it('hears of secrets that become known later, and leaves short ones to the names of fields', () => {
    let known: string[] = []
    const { text, json } = redactor(() => known)
    expect(text('later-secret')).toBe('later-secret')
    known = ['later-secret', 'abc']
    expect(text('a later-secret; abcdef')).toBe('a [redacted]; abcdef')
    known.push('the-latest') // in the same list
    expect(text('the-latest')).toBe('[redacted]')
    expect(json({ password: 'abc' })).toEqual({ password: REDACTED })
  })

  it('takes out one of six characters, the longer of two that begin alike, and one that no URL could hold', () => {
    const { text } = redactor(() => ['abc123', 'abc123-more', 'cut off: \ud83d'])
    for (const secret of ['abc123', 'abc123-more', 'cut off: \ud83d']) expect(text(secret)).toBe(REDACTED)
  })

  it('takes the values of fields that are called secret, at any depth, and keys that are one', () => {
    const { json } = redactor(() => ['secret-key-name'])
    const value = { a: [{ Authorization: 'x', 'api-key': 'y', token_count: 'z', password: 7 }], 'secret-key-name': 1 }
    expect(json(value as never)).toEqual({
      a: [{ Authorization: REDACTED, 'api-key': REDACTED, token_count: 'z', password: 7 }],
      [REDACTED]: 1,
    })
    expect(json({ 'secret-key-name': 1 })).toEqual({ [REDACTED]: 1 })
  })

  it('takes the values of such a field also where it is a list of them, as cookies are', () => {
    const headers = { 'set-cookie': ['sid=abc', ''], 'content-type': ['text/plain'] }
    expect(shapes.json({ headers })).toEqual({
      headers: { 'set-cookie': [REDACTED, ''], 'content-type': ['text/plain'] },
    })
    expect(shapes.json({ 'api-key': ['abc', null, 7] })).toEqual({ 'api-key': [REDACTED, null, 7] })
    const described = { secret: [{ name: 'a key', password: 'abc' }] }
    expect(shapes.json(described)).toEqual({ secret: [{ name: 'a key', password: REDACTED }] })
    const beside = { secret: ['abc', ['def', { name: 'b' }], ...described.secret] }
    expect(shapes.json(beside)).toEqual({
      secret: [REDACTED, [REDACTED, { name: 'b' }], { name: 'a key', password: REDACTED }],
    })
  })

  it('gives the value itself when there is nothing to take out', () => {
    const value = { a: [1, 'two', { three: null }] }
    expect(shapes.json(value)).toBe(value)
  })

  it('leaves no configured secret anywhere, and changes nothing else, whatever the value', () => {
    const secret = 'the-one-secret'
    const { json } = redactor(() => [secret])
    const planted = (value: unknown): Json =>
      JSON.parse(JSON.stringify(value), (_, each) => (typeof each === 'string' ? `${each}${secret}${each}` : each))
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const clean = JSON.stringify(json(planted(value)))
        expect(clean).not.toContain(secret)
        expect(clean.replaceAll(REDACTED, secret)).toBe(JSON.stringify(planted(value)))
      }),
    )
  })

  it('comes to an end with every text, however long', () => {
    const long = 300_000 // with an expression that looks back, each of these would take minutes
    const harmless = [
      'eyJ'.repeat(long / 3),
      '://'.repeat(long / 3),
      'a:'.repeat(long / 2),
      `authorization: ${' '.repeat(long)}`,
    ]
    for (const text of harmless) expect(shapes.text(text)).toBe(text)
    expect(shapes.text(`-----BEGIN PRIVATE KEY-----${'A'.repeat(long)}!`)).toBe(`${REDACTED}!`)
    expect(shapes.text(`sk-${'a'.repeat(long)}`)).toHaveLength(long + 3)
  })

  it('copies an error with its class and fields, and without its secrets or foreign fields', () => {
    const { error } = redactor(() => ['the-secret'])
    const foreign = Object.assign(new TypeError('sent the-secret'), { code: 'E_SENT', request: { body: 'the-secret' } })
    const original = finalFailure('no: the-secret', {
      cause: foreign,
      retryAfterMs: 5,
      spent: { tokens: 1 },
      resume: { at: 'the-secret' },
    })
    const copy = error(original) as ActionError
    expect(copy).toBeInstanceOf(ActionError)
    expect(copy).toMatchObject({
      code: 'action_failed',
      message: 'no: [redacted]',
      retryAfterMs: 5,
      spent: { tokens: 1 },
      resume: { at: REDACTED },
    })
    expect(copy.cause).toMatchObject({ name: 'TypeError', message: 'sent [redacted]', code: 'E_SENT' })
    expect(copy.stack).toContain(original.stack?.split('\n')[1])
    expect(inspect(copy, { depth: 10, showHidden: true })).not.toContain('the-secret')
  })

  it.each([
    ['no message', undefined, {}, 'TypeError'],
    ['an empty message', '', { code: 'ECONNREFUSED' }, 'ECONNREFUSED'],
    ['a message that is no text', { why: 'the-secret' }, {}, 'TypeError'],
  ])('copies an error with %s, and says what it is', (_what, message, more, said) => {
    const odd = Object.assign(new TypeError('x'), { message, stack: [message], ...more })
    const copy = redactor(() => ['the-secret']).error(toActionError(odd))
    expect(copy).toMatchObject({ message: said, cause: { message: said } })
    expect(inspect(copy)).not.toContain('the-secret')
  })

  it('comes to an end with an error that is its own cause, and keeps a code that is a number', () => {
    const own = Object.assign(new Error('the-secret'), { code: 42 })
    own.cause = own
    const copy = redactor(() => ['the-secret']).error(own)
    expect(copy).toMatchObject({ message: REDACTED, code: 42, cause: { message: REDACTED, code: 42 } })
  })

  it('gives an error of ours itself when there is nothing to take out, and else without fields that are objects', () => {
    const { error } = redactor(() => ['the-secret'])
    const violation = { rule: 'r', node: 'n', path: '', message: 'the-secret' }
    const plain = new Refused('no', 'ask')
    expect(error(plain)).toBe(plain)
    const copy = error(new RuleViolation('graph', [violation]))
    expect(copy).toBeInstanceOf(RuleViolation)
    expect(inspect(copy, { depth: 10, showHidden: true })).not.toContain('the-secret')
  })

  it('copies each error of ours as one of its class, also where it has a cause', () => {
    const { error } = redactor(() => ['the-secret'])
    const options = { cause: new Error('sent the-secret') }
    const away = error(new Unavailable('the store', 'start it', options))
    expect(away).toBeInstanceOf(Unavailable)
    expect(away).toMatchObject({ name: 'Unavailable', code: 'unavailable', retryable: true })
    const refused = error(new Refused('the-secret is none', 'use another than the-secret', options))
    expect(refused).toBeInstanceOf(Refused)
    expect(refused).toMatchObject({ message: expect.stringMatching(/^\[redacted\] is none/), code: 'refused' })
    expect(refused).toMatchObject({ remedy: 'use another than [redacted]' })
    const invalid = error(new InvalidInput('x', [], options))
    for (const copy of [away, refused, invalid]) {
      expect(copy.cause).toMatchObject({ message: 'sent [redacted]' })
      expect(inspect(copy, { depth: 10, showHidden: true })).not.toContain('the-secret')
    }
  })

  it('copies questions and problems without secrets', () => {
    const { error } = redactor(() => ['the-secret'])
    const question = {
      digest: 'sha256:0',
      action_id: 'a',
      tool: 't.t',
      arguments: { k: 'the-secret' },
      description: 'use the-secret?',
    } as const
    const asked = error(new ApprovalNeeded(question)) as ApprovalNeeded
    expect(asked).toBeInstanceOf(ApprovalNeeded)
    expect(asked.question).toMatchObject({ arguments: { k: REDACTED }, description: 'use [redacted]?' })
    const wrong = error(
      new InvalidInput('the-secret', [
        { path: 'a.the-secret', rule: 'r', message: 'no the-secret', found: '"the-secret"' },
      ]),
    ) as InvalidInput
    expect(wrong.subject).toBe(REDACTED)
    expect(wrong.problems).toEqual([
      { path: `a.${REDACTED}`, rule: 'r', message: `no ${REDACTED}`, found: `"${REDACTED}"` },
    ])
    expect(error('the-secret').message).toBe(REDACTED)
  })
})
