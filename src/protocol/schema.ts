import type { Kind } from './types.ts'

/** The part of JSON Schema draft-07 that the protocol's shapes are written in. */
export interface Schema {
  readonly title?: string
  readonly description?: string
  /** Another kind. */
  readonly $ref?: Kind
  readonly allOf?: readonly Schema[]
  readonly type?: TypeName | readonly TypeName[]
  readonly const?: string
  readonly enum?: readonly string[]
  readonly minLength?: number
  readonly pattern?: string
  readonly format?: 'date-time' | 'email' | 'uri' | 'uuid'
  readonly minimum?: number
  readonly maximum?: number
  readonly minItems?: number
  readonly uniqueItems?: boolean
  readonly items?: Schema
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: boolean
}

export type TypeName = 'array' | 'boolean' | 'integer' | 'null' | 'number' | 'object' | 'string'
