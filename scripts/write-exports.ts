import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expectedExports } from '../test/repository/exports.ts'
import { ROOT, sourceFiles } from '../test/repository/imports.ts'

// package.json's `exports`, from the rooms and members that there are. A test tells when this was forgotten.

const path = join(ROOT, 'package.json')
const manifest = JSON.parse(readFileSync(path, 'utf8'))
manifest.exports = expectedExports(sourceFiles('src'))
writeFileSync(path, `${JSON.stringify(manifest, null, 2)}\n`)
