import { chmodSync, chownSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { binary } from './install.ts'
import { freePort, type PrivateServer, privateServer } from './private-server.ts'
import { own } from './processes.ts'

/** Postgres on a free loopback port, with a new cluster in a folder below `parent`; fsync is on. */
export async function startPostgres(parent: string): Promise<PrivateServer> {
  const command = await binary('postgres')
  const port = await freePort()
  const folder = join(parent, `postgres-${port}`)
  mkdirSync(folder)
  const user = ordinaryUser()
  if (user) {
    chownSync(folder, user.uid, user.gid)
    chmodSync(parent, 0o755) // mkdtemp closes it to everybody but root
  }
  const options = { cwd: folder, user, stopSignal: 'SIGINT' } as const // SIGTERM would wait for every client to leave
  const data = join(folder, 'data')
  const initdb = own(
    join(dirname(command), 'initdb'),
    ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'],
    options,
  )
  if ((await initdb.exited) !== 'code 0') throw new Error(`initdb failed: ${initdb.lastWords}`)

  const settings = { listen_addresses: '127.0.0.1', unix_socket_directories: '', max_connections: '200' }
  const args = ['-D', data, '-p', String(port), ...Object.entries(settings).flatMap(([k, v]) => ['-c', `${k}=${v}`])]
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  return privateServer({ name: 'postgres', url, start: () => own(command, args, options), ask: () => askPostgres(url) })
}

/** Connects and returns the server's version. */
export async function askPostgres(url: string): Promise<string> {
  return withPostgres(url, async (client) => {
    const { rows } = await client.query('show server_version')
    return String(rows[0].server_version).split(' ')[0] as string
  })
}

/** Drops every schema whose name begins so. */
export async function forgetSchemas(url: string, prefix: string): Promise<void> {
  await withPostgres(url, async (client) => {
    const found = await client.query('select nspname from pg_namespace where starts_with(nspname, $1)', [prefix])
    for (const { nspname } of found.rows) await client.query(`drop schema ${client.escapeIdentifier(nspname)} cascade`)
  })
}

async function withPostgres<T>(url: string, work: (client: import('pg').Client) => Promise<T>): Promise<T> {
  const { default: pg } = await import('pg')
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000 })
  client.on('error', () => undefined) // the call in hand rejects with it
  try {
    await client.connect()
    return await work(client)
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Postgres refuses to run as root; Debian's package makes a user for it. */
function ordinaryUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined
  const user = userNamed('postgres') ?? userNamed('nobody')
  if (!user) throw new Error('postgres does not run as root, and there is neither a user postgres nor nobody')
  return user
}

function userNamed(name: string): { uid: number; gid: number } | undefined {
  const fields = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .find(([user]) => user === name)
  return fields && { uid: Number(fields[2]), gid: Number(fields[3]) }
}
