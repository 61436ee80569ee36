import type { ComposedRuntime } from '../compose.ts'
import type { Strategy } from '../drift/drift.ts'
import type { ProjectFolder } from '../orchestrator/project-folder.ts'
import { InvalidInput, NotFound, Refused } from '../protocol/errors.ts'
import { shown } from '../protocol/shown.ts'
import { type Route, TEXT, wordOf } from './route.ts'

const STRATEGIES: readonly Strategy[] = ['graph', 'files', 'merge', 'ask']
const FINDING = {
  type: 'object',
  properties: { finding_id: TEXT, path: TEXT, what: TEXT, severity: TEXT, digest: TEXT, confirm_id: TEXT },
} as const
const FINDINGS = { type: 'array', items: FINDING } as const
const RECONCILED = {
  type: 'array',
  items: { type: 'object', properties: { finding: FINDING, outcome: TEXT, reason: TEXT } },
} as const

/** What graph and files of the project's folder disagree about, and how it is settled. */
export function driftRoutes(runtime: ComposedRuntime): readonly Route[] {
  const folder = (): ProjectFolder => {
    if (runtime.folder) return runtime.folder
    throw new Refused('no folder is held against the graph', 'give root in the config')
  }
  return [
    {
      method: 'GET',
      path: '/drift',
      says: 'What was found and is not settled; the disk is not looked at.',
      role: 'read',
      answer: FINDINGS,
      handle: async () => folder().findings(),
    },
    {
      method: 'POST',
      path: '/drift/scan',
      says: 'Compares every file with the graph; the first scan takes all files in as they are. Gives what rules and decisions have settled, and what is still open.',
      role: 'run',
      answer: {
        type: 'object',
        properties: {
          root: TEXT,
          files: { type: 'integer' },
          folders: { type: 'integer' },
          unreadable: { type: 'array', items: { type: 'object', properties: { path: TEXT, code: TEXT } } },
          settled: RECONCILED,
          findings: FINDINGS,
        },
      },
      handle: async () => folder().scan(),
    },
    {
      method: 'GET',
      path: '/drift/:id/diff',
      says: 'What graph and disk disagree about, line by line; `null` where there is no text to compare.',
      role: 'read',
      answer: { type: 'object', properties: { finding: FINDING, diff: { type: ['string', 'null'] } } },
      async handle({ params: { id } }) {
        const found = await folder().findings()
        const finding = found.find(({ finding_id, path, from }) => [finding_id, path, from].includes(id))
        if (!finding) throw new NotFound('finding', id)
        const bytes = finding.diff_blob === undefined ? undefined : await runtime.store.getBlob(finding.diff_blob)
        return { finding, diff: finding.diff ?? (bytes ? new TextDecoder().decode(bytes) : null) }
      },
    },
    {
      method: 'POST',
      path: '/drift/reconcile',
      says: 'Settles findings, named by path or id, or all of them: the graph wins, the files, both together, or people are asked.',
      role: 'admin',
      body: {
        type: 'object',
        required: ['findings', 'strategy'],
        properties: {
          findings: { type: ['string', 'array'], items: TEXT, description: '`all`, or paths and ids' },
          strategy: { type: 'string', enum: STRATEGIES },
        },
        additionalProperties: false,
      },
      answer: RECONCILED,
      async handle({ body }) {
        const strategy = wordOf(body, 'strategy', STRATEGIES)
        const tracker = await folder().tracker()
        return tracker.reconcile(namesIn(body.findings), strategy, { actor: 'http' })
      },
    },
  ]
}

function namesIn(findings: unknown): readonly string[] | 'all' {
  if (findings === 'all') return findings
  if (Array.isArray(findings) && findings.every((name) => typeof name === 'string')) return findings
  const message = 'must be `all` or a list of paths and ids'
  throw new InvalidInput('body', [{ path: 'findings', rule: 'type', message, found: shown(findings) }])
}
