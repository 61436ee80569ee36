import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const { resolve } = createRequire(import.meta.url)

/** Of the bare clients, as the product has them. */
export const VERSIONS = { libsql: versionOf('libsql'), pg: versionOf('pg'), ioredis: versionOf('ioredis') }

function versionOf(name: string): string {
  const [folder] = resolve(name).split(`/node_modules/${name}/`)
  return `${name} ${JSON.parse(readFileSync(`${folder}/node_modules/${name}/package.json`, 'utf8')).version}`
}
