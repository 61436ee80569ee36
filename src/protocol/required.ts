import { createRequire } from 'node:module'

/** Loads a package that is CommonJS. An import would first search its text for what it exports, which can take as long as running it. */
export const required = createRequire(import.meta.url)
