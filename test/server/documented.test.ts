import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import * as errors from '../../src/protocol/errors.ts'
import { Denied, problemOf } from '../../src/server/problem.ts'
import { ROOT } from '../repository/imports.ts'
import { flowOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { serving } from './serving.ts'

const page = readFileSync(join(ROOT, 'docs/http.md'), 'utf8')

describe('docs/http.md', () => {
  it('has every path with the role it needs, and no other', async () => {
    const { server, ask } = await serving()
    const { paths } = (await ask('GET', '/openapi.json')).body as {
      paths: { [path: string]: { [method: string]: { 'x-role'?: string } } }
    }
    const served = server.routes.map((route) => {
      const [method, path] = route.split(' ') as [string, string]
      return [route, paths[path.replace(':id', '{id}')]![method.toLowerCase()]!['x-role'] ?? '']
    })
    const documented = [...page.matchAll(/^\| `((?:GET|POST|PATCH|DELETE) [^`]+)` \| (\w*) ?\|/gm)].map(
      ([, route, role]) => [route, role],
    )
    expect(documented.sort()).toEqual(served.sort())
  })

  it('has the status of every error that has one of its own', () => {
    const made = [
      new errors.InvalidInput('x', []),
      new errors.NotFound('x', 'y'),
      new errors.RuleViolation('g', []),
      new errors.RevisionConflict('g', 1, 2),
      new errors.KeyExists('k'),
      new errors.Refused('x', 'y'),
      new errors.TooLarge('x', 2, 1, 'y'),
      new errors.Unavailable('x', 'y'),
      new errors.OutcomeUnknown('g'),
      new errors.FencedOut('g', 1, 2),
      new errors.Closed('x'),
      new Denied('unauthenticated', 'x'),
      new Denied('forbidden', 'x'),
    ]
    const rows = [...page.matchAll(/^\| (\d{3}(?:, \d{3})*) \| (.*) \|$/gm)]
    for (const error of made) {
      const { status, code } = problemOf(error)
      const row = rows.find(([, statuses]) => statuses!.split(', ').includes(String(status)))
      expect(row?.[2], `${status} ${code}`).toContain(`\`${code}\``)
    }
  })

  it('shows requests that work', async (context) => {
    const folder = tempFolder()
    const { url } = await serving({}, { root: folder })
    const flow = flowOf({ greet: {} })
    writeFileSync(join(folder, 'flow.json'), JSON.stringify(flow))
    const places: { [name: string]: string } = {
      plan: flow.plan.plan_id,
      context: flow.plan.context_id,
      step: flow.ids.greet!,
    }
    const commands = [...page.matchAll(/^curl .*$/gm)].map(([line]) => line)
    expect(commands.length).toBeGreaterThan(5)
    for (const command of commands) {
      const line = `${command.replaceAll(/<(\w+)>/g, (_, name) => places[name]!)} --fail-with-body`
      const { code, out } = await ran(line, folder, { MPLP: url })
      if (code === 127) return context.skip('there is no curl')
      expect({ command, code, out: code === 0 ? '' : out }).toEqual({ command, code: 0, out: '' })
    }
  })
})

function ran(line: string, cwd: string, env: NodeJS.ProcessEnv): Promise<{ code: number; out: string }> {
  return new Promise((resolve) => {
    const running = execFile('sh', ['-c', line], { cwd, env: { PATH: process.env.PATH, ...env } }, (error, out) =>
      resolve({ code: error ? (running.exitCode ?? -1) : 0, out }),
    )
  })
}
