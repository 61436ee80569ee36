import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { freePort, privateServer } from '../../test/support/private-server.ts'
import { own } from '../../test/support/processes.ts'

const PROGRAM = join(import.meta.dirname, '../peers/node_modules/.bin/restate-server')

/** Restate's own server as npm brings it, one node, with the WAL of its log fsynced as by default. Resolves with `<ingress> <admin>`. */
export async function startRestate(parent: string): Promise<string> {
  if (!existsSync(PROGRAM)) throw new Error('the Restate server is not installed: npm run bench:setup')
  const [ingress, admin, fabric] = [await freePort(), await freePort(), await freePort()]
  const folder = join(parent, 'restate')
  mkdirSync(folder)
  const at = (port: number) => `127.0.0.1:${port}`
  const env = {
    ...process.env,
    NODE_OPTIONS: '',
    DO_NOT_TRACK: '1',
    RESTATE_BASE_DIR: folder,
    RESTATE_LISTEN_MODE: 'tcp',
    RESTATE_BIND_ADDRESS: at(fabric),
    RESTATE_INGRESS__BIND_ADDRESS: at(ingress),
    RESTATE_ADMIN__BIND_ADDRESS: at(admin),
    RESTATE_LOG_FILTER: 'error',
  }
  const url = `http://${at(ingress)} http://${at(admin)}`
  await privateServer({
    name: 'restate-server',
    url,
    start: () => own(PROGRAM, ['--no-logo'], { cwd: folder, env }),
    async ask() {
      for (const address of [`${at(admin)}/health`, `${at(ingress)}/restate/health`]) {
        const { ok } = await fetch(`http://${address}`)
        if (!ok) throw new Error('it is not ready yet')
      }
      return '1'
    },
  })
  return url
}
