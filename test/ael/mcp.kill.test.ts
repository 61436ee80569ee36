import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { child } from '../support/child.ts'
import { isAlive } from '../support/is-alive.ts'
import { tempFolder } from '../support/temp-folder.ts'

const OWNER = new URL('./mcp-owner.ts', import.meta.url)
const SCRIPT = fileURLToPath(new URL('../support/mcp-server.mjs', import.meta.url))

it.each(['exit', 'throw', 'SIGINT', 'SIGKILL'])(
  'an MCP server that does not end with its stdin ends all the same when its process went by %s',
  async (way) => {
    const notes = tempFolder()
    const server = { command: process.execPath, args: [SCRIPT], env: { MCP_NOTES: notes, MCP_STAYS: 'yes' } }
    const owner = child(OWNER, [JSON.stringify(server), way])
    await owner.line('open')
    const pid = readFileSync(join(notes, 'started'), 'utf8').trim()
    expect(isAlive(pid)).toBe(true)
    if (way === 'SIGINT' || way === 'SIGKILL') await owner.kill(way)
    else owner.tell('go')
    await owner.exited
    await expect.poll(() => isAlive(pid)).toBe(false)
  },
)
