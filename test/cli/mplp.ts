import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'

export interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Runs the real command line in a process of its own, with none of our variables in its environment. */
export function mplp(cwd: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { cwd, env: { PATH: process.env.PATH, HOME: cwd, ...env }, timeout: 60_000 }
    const running = execFile(process.execPath, ['--import', TSX, MAIN, ...args], options, (error, out, err) =>
      resolve({ code: error ? (running.exitCode ?? -1) : 0, out, err }),
    )
  })
}

/** The same with `--json`: what it printed, parsed line by line. */
export const mplpJson = async <T>(cwd: string, args: readonly string[]): Promise<Ended & { readonly values: T[] }> =>
  parsed(await mplp(cwd, [...args, '--json']))

export function parsed<T>(ended: Ended): Ended & { readonly values: T[] } {
  const lines = ended.out.split('\n').filter((line) => line !== '')
  return { ...ended, values: lines.map((line) => JSON.parse(line) as T) }
}

/** What went wrong, if it was said in one line. */
export const oneLine = ({ err }: Ended): string => (/^[^\n]+\n$/.test(err) ? err.trimEnd() : `not one line: ${err}`)

/** The exit code where whoever reads goes away after the first words. */
export function mplpUnread(cwd: string, args: readonly string[]): Promise<number | null> {
  const child = spawn(process.execPath, ['--import', TSX, MAIN, ...args], { cwd, env: { PATH: process.env.PATH } })
  child.stdout.once('data', () => child.stdout.destroy())
  return once(child, 'exit').then(([code]) => code)
}

/** The exit code, and what was said, where nobody hears complaints. */
export async function mplpUnheard(cwd: string, args: readonly string[]): Promise<Pick<Ended, 'code' | 'out'>> {
  const child = spawn(process.execPath, ['--import', TSX, MAIN, ...args], { cwd, env: { PATH: process.env.PATH } })
  child.stderr.destroy()
  let out = ''
  child.stdout.on('data', (text) => {
    out += text
  })
  const [code] = await once(child, 'close')
  return { code, out }
}

/** What it comes to where nothing that it says can be written: `out` is open for reading only. */
export async function mplpUnwritten(cwd: string, args: readonly string[]): Promise<Pick<Ended, 'code' | 'err'>> {
  const out = openSync(MAIN, 'r')
  const child = spawn(process.execPath, ['--import', TSX, MAIN, ...args], {
    cwd,
    env: { PATH: process.env.PATH },
    stdio: ['ignore', out, 'pipe'],
  })
  closeSync(out)
  let err = ''
  child.stderr!.on('data', (text) => {
    err += text
  })
  const [code] = await once(child, 'close')
  return { code, err }
}

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const TSX = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
