import { join } from 'node:path'
import { isObject } from '../protocol/json.ts'
import { messageOf } from '../protocol/thrown.ts'
import { checksums, sha256 } from './pack.ts'
import {
  checkAllTexts,
  checkFolder,
  type Found,
  INTEGRITY,
  isFolder,
  jsonIn,
  linesIn,
  type PackFiles,
  readPack,
} from './pack-files.ts'
import { checkArtifacts } from './verify-artifacts.ts'
import { checkPointers } from './verify-pointers.ts'
import { checkTimeline, hasEvents } from './verify-timeline.ts'

export interface PackFinding {
  readonly rule: string
  readonly path: string
  readonly message: string
}
export interface PackVerdict {
  readonly outcome: 'ADMISSIBLE' | 'NOT_ADMISSIBLE'
  readonly findings: readonly PackFinding[]
  /**
   * The root of the files as they were read, whatever their own checksums say: who was told another by whoever exported them has another pack.
   */
  readonly root: string
  /** Five presence checks of the published contract. */
  readonly guarantees: { readonly [id: string]: boolean }
}

const MOST_FINDINGS = 200

/** Checks a pack, ours or anybody's, by the published admission rules. Survives any folder and reads nothing outside of it. */
export async function verifyPack(folder: string): Promise<PackVerdict> {
  checkFolder(folder)
  const findings: PackFinding[] = []
  const isFull = () => findings.length === MOST_FINDINGS
  let hasMore = false
  const noted: Found = (rule, path, message) => {
    if (isFull()) hasMore = true
    else findings.push({ rule, path, message })
  }
  const found: Found = (...finding) => {
    const wasFull = isFull()
    noted(...finding)
    if (wasFull) throw new Enough()
  }
  const isRun = await isFolder(join(folder, 'pack'))
  const files = await readPack(isRun ? join(folder, 'pack') : folder, noted)
  const checks: { readonly [rule: string]: () => void | Promise<void> } = {
    layout: () => checkAllTexts(files, found),
    manifest: () => checkManifest(files, found),
    integrity: () => checkIntegrity(files, found),
    timeline: () => checkTimeline(files, found),
    artifact: () => checkArtifacts(files, found),
    ...(isRun && { pointers: () => checkPointers(folder, files, found) }),
  }
  for (const [rule, check] of Object.entries(checks)) if (!hasMore) await surviving(rule, check, noted)
  if (hasMore) findings.push({ rule: 'findings.more', path: '.', message: 'more is wrong, which was not looked for' })
  const has = (path: string) => files.has(path)
  return {
    outcome: findings.length === 0 ? 'ADMISSIBLE' : 'NOT_ADMISSIBLE',
    findings,
    root: sha256(checksums(files)),
    guarantees: {
      'LG-01': has('artifacts/context.json') && has('artifacts/plan.json') && has('artifacts/trace.json'),
      'LG-02': hasEvents(files),
      'LG-03': has('artifacts/confirm.json'),
      'LG-04': has('manifest.json'),
      'LG-05': has('integrity/sha256sums.txt'),
    },
  }
}

/** Nobody reads more findings: what is wrong all over is not looked through to its end. */
class Enough extends Error {}

/**
 * JSON that is nested deeply enough uses up the stack of whatever looks at it, and an object may hide that it has no text: such a pack is not
 * admissible, and no reason to fall over.
 */
async function surviving(rule: string, check: () => void | Promise<void>, found: Found): Promise<void> {
  try {
    await check()
  } catch (error) {
    if (error instanceof Enough) return
    found(`${rule}.checkable`, '.', `cannot be checked: ${messageOf(error)}`)
  }
}

function checkManifest(files: PackFiles, found: Found): void {
  const manifest = jsonIn(files, 'manifest.json', found)
  if (manifest === undefined) return
  if (!isObject(manifest)) return found('manifest.type', 'manifest.json', 'must be an object')
  for (const field of ['pack_version', 'pack_id', 'created_at', 'scenario_id'])
    if (typeof manifest[field] !== 'string' || manifest[field] === '')
      found('manifest.field', `manifest.json:${field}`, 'is missing')
  if (manifest.protocol_version !== '1.0.0')
    found('manifest.protocol', 'manifest.json:protocol_version', 'must be 1.0.0')
  if (manifest.pack_version !== undefined && manifest.pack_version !== '1.0')
    found('manifest.version', 'manifest.json:pack_version', 'must be 1.0')
  for (const [field, parts] of Object.entries(MANIFEST_PARTS))
    for (const part of parts) {
      const value = isObject(manifest[field]) ? manifest[field][part] : undefined
      if (typeof value !== 'string' || value === '')
        found('manifest.field', `manifest.json:${field}.${part}`, 'is missing')
    }
  const included = manifest.artifacts_included
  if (!Array.isArray(included)) return found('manifest.field', 'manifest.json:artifacts_included', 'must be a list')
  for (const name of included)
    if (typeof name !== 'string' || !files.has(`artifacts/${name}`))
      found('manifest.artifact', 'manifest.json:artifacts_included', `names ${String(name)}, which is not there`)
}
const MANIFEST_PARTS = {
  generator: ['name', 'version', 'fingerprint'],
  compatibility: ['min_ruleset_version', 'max_ruleset_version'],
}

function checkIntegrity(files: PackFiles, found: Found): void {
  const sums = files.get('integrity/sha256sums.txt')
  if (!sums) return found('integrity.sums', 'integrity/sha256sums.txt', 'is missing')
  const listed = new Map<string, string>()
  for (const [line] of linesIn(sums.toString('utf8'))) {
    const [, sum, path] = /^([0-9a-f]{64}) {2}(.+)$/.exec(line.replace(/\r$/, '')) ?? []
    if (sum === undefined || path === undefined)
      found('integrity.line', 'integrity/sha256sums.txt', `has a line that is not a checksum: ${line.slice(0, 80)}`)
    else if (listed.has(path)) found('integrity.line', 'integrity/sha256sums.txt', `lists ${path} twice`)
    else listed.set(path, sum)
  }
  for (const [path, bytes] of files) {
    if (INTEGRITY.has(path)) continue
    const sum = listed.get(path)
    if (sum === undefined) found('integrity.extra', path, 'has no checksum')
    else if (sum !== sha256(bytes)) found('integrity.sum', path, 'is not what its checksum says')
  }
  for (const path of listed.keys())
    if (!files.has(path)) found('integrity.missing', path, 'has a checksum but is not there')
  const root = files.get('integrity/pack.sha256')?.toString('utf8').trimStart().match(/^\S*/)?.[0]
  if (root === undefined) return found('integrity.root', 'integrity/pack.sha256', 'is missing')
  const lines = [...listed].sort(([a], [b]) => (a < b ? -1 : 1)).map(([path, sum]) => `${sum}  ${path}`)
  if (root !== sha256(lines.join('\n')))
    found('integrity.root', 'integrity/pack.sha256', 'is not the hash of the checksums')
}
