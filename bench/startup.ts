import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build, built } from './contest/build.ts'
import { median, tell } from './report.ts'

// How long it takes until something happens: the command line and the entries of the package beside a Node that does nothing, and what is installed.
// npm run bench -- startup

const ROUNDS = 15
const root = join(import.meta.dirname, '..')
await build()

/** Prints, when the process ends, what it has used: the same load on everybody measured. */
const WATCH = `data:text/javascript,process.on("exit",()=>{const{user,system}=process.cpuUsage();process.stderr.write("\\n"+(user+system)/1000)})`
const main = built('src/cli/main.ts')
const importing = (source: string) => [
  '--input-type=module',
  '-e',
  `import ${JSON.stringify(pathToFileURL(built(source)).href)}`,
]
const commands: { readonly [name: string]: readonly string[] } = {
  'node -e 0': ['-e', '0'],
  'mplp version': [main, 'version'],
  'mplp --help': [main, '--help'],
  'mplp list, in memory': [main, 'list', '--store', 'memory:'],
  'mplp doctor, in memory': [main, 'doctor', '--store', 'memory:'],
  "import 'mplp-runtime/protocol'": importing('src/protocol/protocol.ts'),
  "import 'mplp-runtime/vsl'": importing('src/vsl/vsl.ts'),
  "import 'mplp-runtime/psg'": importing('src/psg/psg.ts'),
  "import 'mplp-runtime/orchestrator'": importing('src/orchestrator/orchestrator.ts'),
  "import 'mplp-runtime'": importing('src/index.ts'),
}

const measured = new Map(Object.keys(commands).map((name) => [name, { wall: [] as number[], cpu: [] as number[] }]))
for (let round = 0; round < ROUNDS; round++)
  for (const [name, args] of Object.entries(commands)) {
    const { wall, cpu } = measured.get(name)!
    const begun = performance.now()
    const { status, stderr } = spawnSync(process.execPath, ['--import', WATCH, ...args], {
      cwd: tmpdir(),
      env: { PATH: process.env.PATH },
      encoding: 'utf8',
    })
    wall.push(performance.now() - begun)
    if (status !== 0) throw new Error(`${name} ended with ${status}: ${stderr}`)
    cpu.push(Number(stderr.split('\n').at(-1)))
  }

const bare = measured.get('node -e 0')!
tell(
  'Starting',
  Object.fromEntries(
    [...measured].map(([name, { wall, cpu }]) => [
      name,
      {
        'ms, fastest': round1(Math.min(...wall)),
        'ms, median': round1(median(wall)),
        'CPU ms, median': round1(median(cpu)),
        'CPU ms beyond bare Node': round1(median(cpu) - median(bare.cpu)),
      },
    ]),
  ),
  'goal: mplp version below 150 ms on a quiet machine',
)

const own = ['bench/dist/src', 'schemas', 'golden-flows'] // bench/dist: what src is compiled to
const needed = execFileSync('npm', ['ls', '--omit=dev', '--all', '--parseable'], { cwd: root, encoding: 'utf8' })
  .split('\n')
  .filter((path) => path.includes('node_modules'))
const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { dependencies: object }
tell('Installed size', {
  'the package itself': { MB: megabytes(own.map((folder) => join(root, folder))), packages: 1 },
  'what it depends on': { MB: megabytes(needed), packages: needed.length },
  'of which named in package.json': {
    MB: megabytes(Object.keys(dependencies).map((name) => join(root, 'node_modules', name))),
    packages: Object.keys(dependencies).length,
  },
})

/** Of all files below, without packages that lie within others: those are counted by themselves. */
function megabytes(folders: readonly string[]): number {
  let bytes = 0
  const add = (folder: string): void => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name)
      if (entry.isDirectory() && entry.name !== 'node_modules') add(path)
      else if (entry.isFile()) bytes += statSync(path).size
    }
  }
  for (const folder of new Set(folders)) add(folder)
  return round1(bytes / 1024 / 1024)
}

function round1(value: number): number {
  return Math.round(value * 10) / 10
}
