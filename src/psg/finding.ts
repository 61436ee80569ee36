/** Something in the store that does not hold together. */
export interface Finding {
  readonly rule: string
  readonly node: string
  readonly message: string
}

export type Found = (rule: string, node: string, message: string) => void
