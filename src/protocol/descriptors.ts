import { existsSync } from 'node:fs'

/** On Linux a path through the descriptor reaches what was opened and checked, even if its name now leads elsewhere. */
export const DESCRIPTORS = '/proc/self/fd'

/** Node's own permissions go by the text of a path: what they let be written at its name they forbid at its descriptor, unless told so. */
const { permission } = process as { readonly permission?: typeof process.permission }
const isPermitted = (['fs.read', 'fs.write'] as const).every((scope) => permission?.has(scope, DESCRIPTORS) ?? true)

export const hasDescriptors = isPermitted && existsSync(DESCRIPTORS)
