import { readdirSync } from 'node:fs'

// `npm run torture -- stores --kills 200`: what is to be tortured, then its options. The last line is JSON; the exit code says whether it held.

const folder = new URL('torture/', import.meta.url)
const subjects = readdirSync(folder)
  .filter((name) => /^[a-z]+\.ts$/.test(name))
  .map((name) => name.slice(0, -'.ts'.length))
const [subject = '', ...args] = process.argv.slice(2)

if (!subjects.includes(subject)) {
  console.error(`torture what? One of ${subjects.join(', ')}`)
  process.exitCode = 2
} else {
  const { run } = (await import(new URL(`${subject}.ts`, folder).href)) as {
    run(args: readonly string[]): Promise<boolean>
  }
  process.exitCode = (await run(args)) ? 0 : 1
}
