import { generateKeyPairSync, sign } from 'node:crypto'

export interface Certificate {
  readonly key: string
  readonly cert: string
}

/** A certificate for 127.0.0.1 that is its own authority, with its key, made anew: neither is kept anywhere. */
export function ownCertificate(): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const names = sequence(der(0x31, sequence(COMMON_NAME, der(0x0c, Buffer.from('mplp-runtime test')))))
  const validity = sequence(der(0x17, Buffer.from('200101000000Z')), der(0x18, Buffer.from('21200101000000Z')))
  const extensions = sequence(
    sequence(BASIC_CONSTRAINTS, der(0x04, sequence(der(0x01, Buffer.of(0xff))))),
    sequence(ALTERNATIVE_NAMES, der(0x04, sequence(der(0x87, Buffer.of(127, 0, 0, 1))))),
  )
  const content = sequence(
    der(0xa0, integer(2)), // the third version
    integer(1),
    sequence(ECDSA_WITH_SHA256),
    names, // whoever signs
    validity,
    names, // for whom
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  )
  const signature = der(0x03, Buffer.concat([Buffer.of(0), sign('sha256', content, privateKey)]))
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: pem(sequence(content, sequence(ECDSA_WITH_SHA256), signature)),
  }
}

/** A value of ASN.1: what it is, how long, and its bytes. */
function der(tag: number, bytes: Buffer): Buffer {
  const { length } = bytes
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.of(tag, ...size), bytes])
}
const sequence = (...parts: readonly Buffer[]): Buffer => der(0x30, Buffer.concat(parts))
const integer = (value: number): Buffer => der(0x02, Buffer.of(value))

const id = (...bytes: readonly number[]): Buffer => der(0x06, Buffer.of(...bytes))
const COMMON_NAME = id(0x55, 4, 3)
const ALTERNATIVE_NAMES = id(0x55, 0x1d, 17)
const BASIC_CONSTRAINTS = id(0x55, 0x1d, 19)
const ECDSA_WITH_SHA256 = id(0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2)

const pem = (bytes: Buffer): string =>
  `-----BEGIN CERTIFICATE-----\n${bytes.toString('base64').replace(/.{1,64}/g, '$&\n')}-----END CERTIFICATE-----\n`
