import type { KnipConfig } from 'knip'
import manifest from './package.json' with { type: 'json' }

/** The sources of what is published: dist/testing is compiled from test/contracts, the rest from src. */
const published = Object.values<string | { default: string }>(manifest.exports)
  .map((target) => (typeof target === 'string' ? target : target.default))
  .filter((path) => path.startsWith('./dist/'))
  .map((path) =>
    path.replace('./dist/testing/', './test/contracts/').replace('./dist/', './src/').replace(/\.js$/, '.ts'),
  )

export default {
  entry: [
    ...published,
    'scripts/*.ts',
    'scripts/torture/*.ts',
    'bench/*.ts',
    'bench/contestants/*.ts',
    'bench/contest/compiled{,-hooks}.mjs',
    'examples/*.ts',
    '.ci/count.mjs',
    'test/support/reaper.mjs',
    'test/**/fixtures/*.ts',
  ],
  project: ['{src,test,scripts,bench,examples}/**/*.{ts,mjs}', '.ci/*.mjs'],
  ignoreExportsUsedInFile: { interface: true, type: true }, // a type that an exported function speaks of is public with it
  ignoreBinaries: ['apt-get', 'openssl', 'mkfifo', 'mount', 'umount'],
  treatConfigHintsAsErrors: true,
} satisfies KnipConfig
