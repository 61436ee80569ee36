import { posix } from 'node:path'
import { type Clock, systemClock } from '../protocol/clock.ts'
import { InvalidInput, MplpError, type Problem } from '../protocol/errors.ts'
import { wholeFrom } from '../protocol/fields.ts'
import { type Digest, isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { blaming } from '../protocol/problem.ts'
import { turns } from '../protocol/turns.ts'
import { undo } from './action.ts'
import type { Action, Adapter, Asker, Call, Inverse, Outcome } from './adapter.ts'
import { isBase64 } from './base64.ts'
import { checkFileOptions } from './check-options.ts'
import { aborted, finalFailure, passingFailure } from './failure.ts'
import { type Desk, found, move, read, remove, write } from './file-operations.ts'
import { fileRoot, pathProblem } from './file-root.ts'
import type { Blobs } from './layer.ts'
import { REDACTED } from './redact.ts'
import { unknownParams } from './unknown-params.ts'

export interface FileOptions {
  readonly root: string
  /** Keeps what a write or a delete replaces; without it, neither can be taken back. */
  readonly blobs?: Blobs
  /** Is what lies there now (nothing: `undefined`) something that the asker has not seen? Asked before every change. */
  readonly staleCheck?: (path: string, found: Digest | undefined, asker: Asker) => boolean | Promise<boolean>
  /** May anything at this path be changed? It is where links lead, from the root. */
  readonly mayWrite?: (path: string) => boolean | Promise<boolean>
  /** May what lies at this path be read? */
  readonly mayRead?: (path: string) => boolean | Promise<boolean>
  /** 16 MiB when absent. */
  readonly maxBytes?: number
  readonly clock?: Clock
}

/**
 * Does `file_operation` below one root. Params `{ operation, path }` and
 * - `read`: gives `content`, or `content_base64` for what is not UTF-8;
 * - `write`: one of `content`, `content_base64`, `content_digest` (from the blobs), and `mode?`; replaced at once or not at all;
 * - `delete`;
 * - `move`: `to`, which must not exist.
 * All but read take `expected_digest` and `expected_mode`: refused as StaleFile when something else lies there; a digest of `null` expects nothing.
 */
export async function fileAdapter(options: FileOptions): Promise<Adapter> {
  checkFileOptions(options)
  const { clock = systemClock, maxBytes = 16 * 1024 * 1024 } = options
  const root = await fileRoot(options.root)
  const desk: Desk = { ...options, root, maxBytes, clock }
  const turn = turns()

  return {
    action_type: 'file_operation',
    executor_kind: 'tool',
    paramNames: PARAMS,
    label: (params) => `file.${String(params.operation)}`,
    readOnly: (params) => params.operation === 'read',

    check(params) {
      const problems = problemsOf(params, options.blobs !== undefined)
      if (problems.length > 0) throw new InvalidInput('file_operation', problems)
    },

    async execute({ params }, call) {
      if (params.operation !== 'read') refuseIfNeverDurable(String(params.path))
      // Of two that find the same and change it, one would write over the other unseen, and neither could be taken back.
      const leave = params.operation === 'read' ? undefined : await turn(pathsIn(params).map(posix.normalize))
      try {
        return { output: await OPERATIONS[params.operation as Operation](desk, params, call) }
      } catch (error) {
        throw call.signal.aborted ? aborted('the file operation', call.signal) : diskFailure(error, String(params.path))
      } finally {
        leave?.()
      }
    },

    async found(params) {
      const looked = pathsIn(params).map((name) =>
        found(desk, name, params.operation === 'write').catch((error) => {
          throw diskFailure(error, name)
        }),
      )
      return Promise.all(looked)
    },

    inverse: (action, outcome) => inverseOf(action, outcome, clock),
  }
}

const pathsIn = ({ path, to }: JsonObject): readonly string[] => [path, to].filter((name) => typeof name === 'string')

type Operation = 'read' | 'write' | 'delete' | 'move'
const OPERATIONS: Readonly<Record<Operation, (desk: Desk, params: JsonObject, call: Call) => Promise<JsonObject>>> = {
  read,
  write,
  delete: remove,
  move,
}
const CONTENTS = ['content', 'content_base64', 'content_digest']
const DIGEST = /^sha256:[0-9a-f]{64}$/
const PARAMS = ['operation', 'path', 'to', 'mode', ...CONTENTS, 'expected_digest', 'expected_mode']

function problemsOf(params: JsonObject, hasBlobs: boolean): Problem[] {
  const { operation, expected_digest } = params
  const problems = unknownParams(params, PARAMS)
  const blame = blaming(problems)
  if (!Object.hasOwn(OPERATIONS, String(operation)))
    blame('operation', 'enum', 'must be read, write, delete or move', operation)
  for (const name of operation === 'move' ? ['path', 'to'] : ['path']) {
    const problem = pathProblem(params[name], name)
    if (problem !== undefined) problems.push(problem)
  }
  if (expected_digest !== undefined && expected_digest !== null && !DIGEST.test(String(expected_digest)))
    blame('expected_digest', 'digest', 'must be a sha256 digest or null', expected_digest)
  for (const name of ['mode', 'expected_mode'])
    if (params[name] !== undefined && !wholeFrom(0, 0o777).fits(params[name]))
      blame(name, 'range', 'must be permission bits, 0 to 0o777', params[name])
  if (operation !== 'write') return problems
  const given = CONTENTS.filter((name) => params[name] !== undefined)
  if (given.length !== 1)
    blame('content', 'one_of', `must be given once, as one of ${CONTENTS.join(', ')}`, given.join(', '))
  for (const name of given) if (typeof params[name] !== 'string') blame(name, 'type', 'must be text', params[name])
  if (typeof params.content_base64 === 'string' && !isBase64(params.content_base64))
    blame('content_base64', 'base64', 'must be base64', params.content_base64)
  if (params.content_digest !== undefined && !hasBlobs)
    blame('content_digest', 'blobs', 'needs a blob store', params.content_digest)
  return problems
}

/** Node's own permissions forbid fsync and the setting of a mode, whatever else they allow: a change would be made, and its end told as a failure. */
function refuseIfNeverDurable(path: string): void {
  if (process.permission !== undefined)
    throw finalFailure(`${path}: files can only be read under Node's --permission, which forbids fsync`)
}

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the quota is used up',
  EROFS: 'the file system is read-only',
  EACCES: 'permission is denied',
  EPERM: 'permission is denied',
  EXDEV: 'it would cross from one file system to another',
  ENAMETOOLONG: 'the name is too long',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of the path is not a folder',
}
const PASSING = ['EMFILE', 'ENFILE', 'EBUSY', 'EAGAIN', 'EIO', 'ETIMEDOUT']

function diskFailure(error: unknown, path: string): MplpError {
  if (error instanceof MplpError) return error
  const { code = '', message } = error as NodeJS.ErrnoException
  // The system's own message names the folder through which we reached it, not the one that the caller knows.
  const text = `${path}: ${REASONS[code] ?? (['', 'ERR_ACCESS_DENIED'].includes(code) ? message : code)}`
  return PASSING.includes(code) ? passingFailure(text) : finalFailure(text)
}

function inverseOf(action: Action, { output }: Outcome, clock: Clock): Inverse {
  const { operation } = action.params
  if (operation === 'read' || !isObject(output)) return 'none_needed'
  const [path, to] = [placeOf(action.params, output, 'path'), placeOf(action.params, output, 'to')]
  if (operation === 'move')
    return undo(action, { operation, path: to, to: path, expected_digest: output.digest as Json }, clock)
  if (output.unchanged === true) return output.repeated === true ? 'irreversible' : 'none_needed'
  // The mode too: who has changed it since would find it changed back, or the file gone.
  const now: JsonObject =
    operation === 'write'
      ? { expected_digest: output.digest as Json, expected_mode: output.mode as Json }
      : { expected_digest: null }
  if (operation === 'write' && output.previous === null)
    return undo(action, { operation: 'delete', path, ...now }, clock)
  const { digest, mode, kept: isKept } = output.previous as { digest: Digest; mode: number; kept: boolean }
  if (!isKept) return 'irreversible'
  return undo(action, { operation: 'write', path, content_digest: digest, mode, ...now }, clock)
}

/** Where a name led then: the links on the way may lead elsewhere, or nowhere, by the time that it is taken back. */
function placeOf(params: JsonObject, output: JsonObject, name: 'path' | 'to'): Json {
  const said = output[name]
  return (typeof said === 'string' && !said.includes(REDACTED) ? said : params[name]) as Json
}
