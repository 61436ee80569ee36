import { tmpdir } from 'node:os'
import { describe, expect, it } from 'vitest'
import type { Adapter } from '../../src/ael/adapter.ts'
import { fileAdapter } from '../../src/ael/file.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import { handoffAdapter } from '../../src/ael/handoff.ts'
import { httpAdapter } from '../../src/ael/http.ts'
import { toolAdapter } from '../../src/ael/tool.ts'
import { toolRegistry } from '../../src/ael/tool-registry.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import type { JsonObject } from '../../src/protocol/json.ts'

const tools = toolRegistry()
tools.register({ name: 'a.b', description: 'c', input: { type: 'object' }, execute: () => null })
const files = await fileAdapter({ root: tmpdir() })

describe('a parameter that nobody reads', () => {
  it.each<[string, Adapter, JsonObject, string]>([
    ['function', functionAdapter({ noop: () => null }), { name: 'noop', args: 1 }, 'arg'],
    ['tool_call', toolAdapter(tools), { tool_name: 'a.b', tool_args: {} }, 'args'],
    ['http_request', httpAdapter(), { url: 'http://example.org/', method: 'POST' }, 'metod'],
    ['file_operation', files, { operation: 'read', path: 'a' }, 'expected_digset'],
    ['agent_handoff', handoffAdapter({ hand: async () => undefined }), { from_role: 'a', to_role: 'b' }, 'data'],
  ])('of %s is refused, and not passed over', (_type, adapter, params, unknown) => {
    expect(adapter.check?.(params, {})).toBeUndefined()
    const refusal = (() => {
      try {
        adapter.check?.({ ...params, [unknown]: 1 }, {})
      } catch (error) {
        return error
      }
    })()
    expect(refusal).toBeInstanceOf(InvalidInput)
    expect(refusal).toMatchObject({ problems: [{ path: unknown, rule: 'extra_forbidden' }] })
  })
})
