import { realpath, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { type Config, effectiveConfig } from './config.ts'
import { CONFIG_FILES, inConfig } from './config-check.ts'
import type { FolderOptions, ProjectFolder } from './orchestrator/project-folder.ts'
import { below } from './protocol/below.ts'
import { InvalidInput } from './protocol/errors.ts'
import { given } from './protocol/given.ts'
import type { Project } from './psg/project.ts'
import { storePath } from './vsl/vsl.ts'

export interface FolderParts extends Partial<Omit<FolderOptions, 'root'>> {
  readonly project: Project | Promise<Project>
}

/** A folder as the config says that it is held against the graph. Throws InvalidInput for one that is not there. */
export async function openProjectFolder(
  folder: string,
  config: Config,
  { project, ...parts }: FolderParts,
): Promise<ProjectFolder> {
  const root = await realFolder(folder)
  const { EXCLUDED, projectFolder } = await import('./orchestrator/project-folder.ts')
  const { exclude = EXCLUDED, ...said } = optionsIn(config)
  return projectFolder(project, {
    ...said,
    exclude: [...exclude, ...(await ownPatterns(root, config)), ...effectiveConfig(config).off_limits],
    ...parts,
    root,
  })
}

/**
 * Throws InvalidInput for a folder that is not there, and for a config by which none can be held against a graph. To be asked before a store is
 * made: the folder itself is looked at when it is first needed, and then a run would fail of it.
 */
export async function checkFolder(folder: string, config: Config): Promise<void> {
  const root = await realFolder(folder).catch((error: unknown) => {
    throw folder === config.root && error instanceof InvalidInput ? noRoot(folder, error) : error
  })
  const { checkFolderOptions } = await import('./orchestrator/project-folder.ts')
  inConfig('drift', () => checkFolderOptions({ ...optionsIn(config), root }))
}

const noRoot = (folder: string, cause: InvalidInput): InvalidInput =>
  new InvalidInput(
    'config',
    [{ path: 'root', rule: 'folder', message: `names ${folder}, which ${cause.problems[0]!.message}` }],
    { cause },
  )

function optionsIn({ drift = {} }: Config): Omit<FolderOptions, 'root'> {
  const { ignore_files, keep_bytes, settle_ms, scan_every_ms, ...alike } = drift
  return {
    ...alike,
    ...given({ ignoreFiles: ignore_files, keepBytes: keep_bytes, settleMs: settle_ms, scanEveryMs: scan_every_ms }),
  }
}

/** The real path of a folder. Throws InvalidInput for what is none. */
async function realFolder(folder: string): Promise<string> {
  const refuse = (why: string, cause?: unknown) =>
    new InvalidInput(folder, [{ path: '', rule: 'folder', message: `is no folder that can be read: ${why}` }], {
      cause,
    })
  const root = await realpath(resolve(folder)).catch((cause: NodeJS.ErrnoException) => {
    throw refuse(cause.code === 'ENOENT' ? 'make it first' : String(cause.code), cause)
  })
  if (!(await stat(root)).isDirectory()) throw refuse('it is a file')
  return root
}

/** The store's own files: to watch them would be to write about every writing. */
async function ownPatterns(root: string, config: Config): Promise<readonly string[]> {
  const literal = (await storeIn(root, config))?.replaceAll(/[\\*?[\](){}!+@|^$]/g, '\\$&')
  return literal === undefined ? [] : [...STORE_ENDS, '/**'].map((end) => literal + end)
}

/** By their whole names: a store called state must not take statement.md with it. */
const STORE_ENDS = ['', '-journal', '-shm', '-wal']

/** Where the store lies in a folder, if it does. */
async function storeIn(root: string, config: Config): Promise<string | undefined> {
  const { vsl } = effectiveConfig(config)
  const path = typeof vsl === 'string' ? storePath(vsl) : undefined
  if (path === undefined) return undefined
  const folder = await realpath(dirname(resolve(path))).catch(() => dirname(resolve(path))) // not made yet
  return below(root, join(folder, basename(path)))
}

/** What flows may do in a folder, by real paths. */
interface Kept {
  readonly mayRead: (path: string) => Promise<boolean>
  readonly mayWrite: (path: string) => Promise<boolean>
}

async function offLimits(config: Config): Promise<(path: string) => boolean> {
  const { covering } = await import('./drift/select.ts')
  return covering(effectiveConfig(config).off_limits)
}

/**
 * No flow may change the store, in which it could destroy every run and forge an answer of people's, nor the config, which says what flows may do. Nor may
 * it read the store: all others' outputs are there, and whoever closes a file of SQLite takes away the locks that its own process has on it. What is off
 * limits it may neither read nor change.
 */
export async function keptFromFlows(root: string, config: Config): Promise<Kept> {
  const store = await storeIn(root, config)
  const files = store === undefined ? [] : STORE_ENDS.map((end) => store + end)
  const isStore = (path: string) => files.includes(path) || (store !== undefined && path.startsWith(`${store}/`))
  let isOffLimits: Promise<(path: string) => boolean> | undefined
  const mayRead = async (path: string) => {
    isOffLimits ??= offLimits(config) // when it is first asked: to start does not wait for it
    return !isStore(path) && !(await isOffLimits)(path)
  }
  return { mayRead, mayWrite: async (path) => !CONFIG_FILES.includes(path) && (await mayRead(path)) }
}
