import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { describe, expect, it, vi } from 'vitest'
import { holderIsGone, isFree, thisHolder } from '../../src/vsl/holder.ts'
import { farHolder, goneHolder, needsProcessTable } from '../contracts/backend/holders.ts'

describe('the holder of a lease', () => {
  it('is here as long as its process is', () => {
    expect(holderIsGone(thisHolder('me'))).toBe(false)
  })

  it('is gone with its process, or when its pid has gone to a later one', async (context) => {
    needsProcessTable(context)
    expect(holderIsGone(await goneHolder('gone'))).toBe(true)
    expect(holderIsGone({ ...thisHolder('before'), started: '1' })).toBe(true)
  })

  it('is gone when its process has ended and its parent has not noticed', async (context) => {
    needsProcessTable(context)
    const parent = spawn('sh', ['-c', 'sleep 0.01 & echo $!; exec sleep 30'], { stdio: ['ignore', 'pipe', 'ignore'] })
    try {
      const [pid] = await new Promise<[string]>((resolve) =>
        createInterface({ input: parent.stdout }).once('line', (line) => resolve([line])),
      )
      const holder = { ...thisHolder('unburied'), pid: Number(pid) }
      const started = (await vi.waitFor(() => {
        const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
        expect(fields[0]).toBe('Z')
        return fields[19]
      }, 10_000)) as string
      expect(holderIsGone({ ...holder, started })).toBe(true)
    } finally {
      parent.kill('SIGKILL')
    }
  })

  it('is never taken for gone where nobody can see', () => {
    expect(holderIsGone(farHolder('far'))).toBe(false)
    expect(holderIsGone({ id: 'x', boot: '', pid: 1, started: '1' })).toBe(false)
    expect(
      holderIsGone({ ...thisHolder('x'), boot: `${thisHolder('x').boot} in another container`, pid: 999_999 }),
    ).toBe(false)
  })

  it('keeps others out until its time is up', () => {
    const held = { holder: farHolder('one'), until: 100 }
    expect(isFree(undefined, farHolder('two'), 0)).toBe(true)
    expect(isFree(held, farHolder('two'), 99)).toBe(false)
    expect(isFree(held, farHolder('two'), 100)).toBe(true)
    expect(isFree(held, farHolder('one'), 0)).toBe(true)
  })
})
