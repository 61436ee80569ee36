import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { TestContext } from 'vitest'
import type { Holder } from '../../../src/vsl/backend.ts'
import { thisHolder } from '../../../src/vsl/holder.ts'

let gone: Promise<Pick<Holder, 'boot' | 'pid' | 'started'>> | undefined

/** A holder on this machine whose process has ended. */
export async function goneHolder(id: string): Promise<Holder> {
  gone ??= ended()
  return { ...(await gone), id }
}

/** A holder on another machine, of which nobody here can say whether it lives. */
export const farHolder = (id: string): Holder => ({ id, boot: 'another machine', pid: 1, started: '1' })

export function needsProcessTable(context: TestContext): void {
  context.skip(thisHolder('x').boot === '', 'this machine does not tell which processes live')
}

async function ended(): Promise<Pick<Holder, 'boot' | 'pid' | 'started'>> {
  const child = spawn(process.execPath, ['-e', ''], { stdio: 'ignore' })
  await once(child, 'exit')
  return { boot: thisHolder('x').boot, pid: child.pid!, started: '1' }
}
