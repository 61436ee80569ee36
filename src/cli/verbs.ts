import type { PLAN_ENDINGS } from '../protocol/lifecycle.ts'
import type { Verb, VerbOption } from './verb.ts'

/** Spelt out: `mplp help` must not wait for what it does not need. */
const ENDINGS = ['completed', 'failed', 'cancelled'] as const satisfies typeof PLAN_ENDINGS
const STRATEGIES = ['graph', 'files', 'merge', 'ask']

/** What verbs of two words have in common, by the first. */
export const GROUPS: { readonly [word: string]: string } = {
  confirm: 'what waits for a person, and the answer',
  snapshot: 'names for a context as it is, and the way back',
  drift: 'where a folder and the graph disagree',
  evidence: 'what a run leaves for others to check',
  store: 'the store itself: proof, copy, size',
  config: 'what is configured',
}

const DECIDING: readonly VerbOption[] = [
  { flags: '--role <role>', says: 'in which role you decide', fallback: 'user' },
  { flags: '--reason <text>', says: 'why' },
  { flags: '--digest <digest>', says: 'of what you saw, by confirm list --json: refused once something else is asked' },
]

const SEEING: readonly VerbOption[] = [
  { flags: '--detach', says: 'submit and leave; another worker, or `mplp resume`, runs it' },
  { flags: '--approve <role>', says: 'approve whatever is asked, in this role' },
  { flags: '--events', says: 'print events as they are committed' },
]

/** Every verb, in the order that help shows. */
export const VERBS: readonly Verb[] = [
  {
    usage: 'init',
    says: 'make a config file and a first flow in this folder',
    examples: ['mplp init'],
    load: () => import('./init.ts'),
  },
  {
    usage: 'run <flow>',
    says: 'submit a flow (.json, .yaml, .js, .ts) and wait for its end',
    options: SEEING,
    examples: ['mplp run flow.json', 'mplp run flow.yaml --events', 'mplp run flow.json --approve lead --json'],
    load: () => import('./run.ts'),
  },
  {
    usage: 'rerun <run>',
    says: 'go on where a run has failed or was cancelled, and wait for its end: what it had done is not done again',
    options: [
      ...SEEING,
      { flags: '--options <json>', says: 'instead of what the first was asked to be: a deadline, a budget' },
      { flags: '--reason <text>', says: 'why' },
    ],
    examples: ['mplp rerun 3f0c…', `mplp rerun 3f0c… --options '{"deadline":"2030-01-01T00:00:00Z"}' --json`],
    load: () => import('./rerun.ts'),
  },
  {
    usage: 'resume [id]',
    says: 'take up every run that nobody looks after, until none is left; with an id, have that paused run go on',
    examples: ['mplp resume', 'mplp resume 3f0c…'],
    load: () => import('./resume.ts'),
  },
  {
    usage: 'list',
    says: 'every run that has not ended and what it waits for, and what waits for a person',
    options: [
      { flags: '--ended', says: 'those that have ended instead, the last one first' },
      { flags: '--status <name>', says: 'of these only; looks further back', choices: ENDINGS },
      { flags: '--limit <n>', says: 'of these at most so many (20); costs what it shows and passes over' },
    ],
    examples: ['mplp list', 'mplp list --json', 'mplp list --ended --status failed --limit 5'],
    load: () => import('./list.ts'),
  },
  {
    usage: 'show <id>',
    says: 'an object by its id, a file also by its path; as an L1 document where the protocol knows it',
    examples: ['mplp show 3f0c…', 'mplp show src/app.ts'],
    load: () => import('./show.ts'),
  },
  {
    usage: 'why <id>',
    says: 'the chain that led to a node: context, plan, approval, step, action',
    examples: ['mplp why 3f0c…', 'mplp why src/app.ts'],
    load: () => import('./why.ts'),
  },
  {
    usage: 'history <id>',
    says: 'every change of a node, with who and why',
    examples: ['mplp history 3f0c…', 'mplp history src/app.ts --json'],
    load: () => import('./history.ts'),
  },
  {
    usage: 'graph <id>',
    says: 'a plan, or a whole context, as a picture',
    options: [{ flags: '--dot', says: 'as Graphviz' }],
    examples: ['mplp graph 3f0c…', 'mplp graph 3f0c… --dot | dot -Tsvg > plan.svg', 'mplp graph 3f0c… --json'],
    load: () => import('./graph.ts'),
  },
  {
    usage: 'events',
    says: 'what was committed, oldest first',
    options: [
      { flags: '--follow', says: 'go on as more is committed' },
      { flags: '--family <names>', says: 'only these families, comma separated' },
      { flags: '--plan <id>', says: 'only this plan' },
      { flags: '--after <position>', says: 'only what came after' },
    ],
    onlyTells: true,
    examples: ['mplp events --family pipeline_stage', 'mplp events --follow --json'],
    load: () => import('./events.ts'),
  },
  {
    usage: 'confirm list',
    says: 'what waits for a person',
    options: [
      { flags: '--limit <n>', says: 'at most so many, in the order of ids' },
      { flags: '--after <id>', says: 'only those behind this one' },
    ],
    examples: ['mplp confirm list', 'mplp confirm list --limit 20 --after 3f0c…'],
    load: () => import('./confirm-list.ts'),
  },
  {
    usage: 'confirm approve <id>',
    says: 'approve what a Confirm asks',
    options: DECIDING,
    examples: ['mplp confirm approve 3f0c… --role dba --reason "backup checked"'],
    load: () => import('./confirm-approve.ts'),
  },
  {
    usage: 'confirm reject <id>',
    says: 'reject what a Confirm asks',
    options: DECIDING,
    examples: ['mplp confirm reject 3f0c… --reason "no backup"'],
    load: () => import('./confirm-reject.ts'),
  },
  {
    usage: 'signal <id> <name>',
    says: 'hand something to a run: a step that waits for that name takes it',
    options: [{ flags: '--payload <json>', says: 'what the step gets as its output', fallback: 'null' }],
    examples: ['mplp signal 3f0c… paid', `mplp signal 3f0c… paid --payload '{"amount":12}'`],
    load: () => import('./signal.ts'),
  },
  {
    usage: 'pause <id>',
    says: 'stop a run at its next boundary',
    examples: ['mplp pause 3f0c…'],
    load: () => import('./pause.ts'),
  },
  {
    usage: 'cancel <id>',
    says: 'end a run: what is under way is told to stop',
    examples: ['mplp cancel 3f0c…'],
    load: () => import('./cancel.ts'),
  },
  {
    usage: 'rollback <run>',
    says: 'take back what a run did that has ended: effects, files, graph',
    options: [
      { flags: '--dry-run', says: 'only say what would be done, and what cannot be undone' },
      { flags: '--leave', says: 'do not ask about what cannot be undone: go back as far as it goes' },
    ],
    examples: ['mplp rollback 3f0c… --dry-run', 'mplp rollback 3f0c…'],
    load: () => import('./rollback.ts'),
  },
  {
    usage: 'snapshot create <context> <name>',
    says: 'give a context as it is now a name',
    examples: ['mplp snapshot create 3f0c… before-the-move'],
    load: () => import('./snapshot-create.ts'),
  },
  {
    usage: 'snapshot list <context>',
    says: 'the snapshots of a context, oldest first',
    examples: ['mplp snapshot list 3f0c…'],
    load: () => import('./snapshot-list.ts'),
  },
  {
    usage: 'snapshot diff <context> <from> [to]',
    says: 'what differs between two snapshots or revisions, or since one',
    examples: ['mplp snapshot diff 3f0c… before-the-move', 'mplp snapshot diff 3f0c… 4 9 --json'],
    load: () => import('./snapshot-diff.ts'),
  },
  {
    usage: 'snapshot restore <context> <to>',
    says: 'go back to a snapshot or revision by a further commit',
    options: [{ flags: '--dry-run', says: 'only say what would be done' }],
    examples: ['mplp snapshot restore 3f0c… before-the-move --dry-run'],
    load: () => import('./snapshot-restore.ts'),
  },
  {
    usage: 'watch [folder]',
    says: 'tell what changes in a folder behind the graph’s back, as it happens',
    options: [
      { flags: '--context <id>', says: 'hold it against this context; one of the folder’s own when absent' },
      { flags: '--strategy <name>', says: 'settle it at once', choices: STRATEGIES },
    ],
    onlyTells: true,
    examples: ['mplp watch .', 'mplp watch src --strategy files'],
    load: () => import('./watch.ts'),
  },
  {
    usage: 'drift scan [folder]',
    says: 'look at every file; the first time all is taken in as it lies there',
    options: [{ flags: '--context <id>', says: 'hold it against this context; one of the folder’s own when absent' }],
    examples: ['mplp drift scan', 'mplp drift scan src --json'],
    load: () => import('./drift-scan.ts'),
  },
  {
    usage: 'drift list [folder]',
    says: 'what was found and is not settled',
    options: [{ flags: '--context <id>', says: 'of this context' }],
    examples: ['mplp drift list'],
    load: () => import('./drift-list.ts'),
  },
  {
    usage: 'drift diff <finding> [folder]',
    says: 'what graph and disk disagree about, line by line; a finding by its path or id',
    options: [{ flags: '--context <id>', says: 'of this context' }],
    examples: ['mplp drift diff notes.md'],
    load: () => import('./drift-diff.ts'),
  },
  {
    usage: 'drift reconcile <finding> [folder]',
    says: 'settle a finding, by its path or id, or `all`',
    options: [
      { flags: '--strategy <name>', says: 'who wins', fallback: 'ask', choices: STRATEGIES },
      { flags: '--context <id>', says: 'of this context' },
    ],
    examples: ['mplp drift reconcile notes.md --strategy files', 'mplp drift reconcile all --strategy graph'],
    load: () => import('./drift-reconcile.ts'),
  },
  {
    usage: 'evidence export <run> <folder>',
    says: 'write a run’s evidence pack',
    examples: ['mplp evidence export 3f0c… ./evidence'],
    load: () => import('./evidence-export.ts'),
  },
  {
    usage: 'evidence verify <folder>',
    says: 'check a pack, ours or another’s, by the published rules',
    examples: ['mplp evidence verify ./evidence'],
    load: () => import('./evidence-verify.ts'),
  },
  {
    usage: 'store verify [context]',
    says: 'prove the store: journal, values, references, indexes',
    examples: ['mplp store verify'],
    load: () => import('./store-verify.ts'),
  },
  {
    usage: 'store reindex [context]',
    says: 'make the indexes tell what the values say, where `store verify` has found that they do not',
    examples: ['mplp store reindex'],
    load: () => import('./store-reindex.ts'),
  },
  {
    usage: 'store copy <to>',
    says: 'copy the whole store into an empty one, and compare',
    options: [
      {
        flags: '--without-ended <before>',
        says: 'leave contexts out that ended before then: a date, or 90d for ninety days ago',
      },
      {
        flags: '--forget-bus <name...>',
        says: 'with --without-ended: a bus that is no longer used, for which nothing has to stay',
      },
      {
        flags: '--key-env <variable>',
        says: 'encrypt the copy with the key in this variable, whatever the store is encrypted with',
      },
      { flags: '--decrypt', says: 'leave the copy of an encrypted store unencrypted' },
    ],
    examples: [
      'mplp store copy postgres://localhost/mplp',
      'mplp store copy file:./.mplp/backup',
      'mplp store copy sqlite:./.mplp/young.db --without-ended 90d',
      'mplp store copy sqlite:./.mplp/sealed.db --key-env COPY_KEY',
    ],
    load: () => import('./store-copy.ts'),
  },
  {
    usage: 'store trim <before>',
    says: 'take contexts away that ended before then, out of a store that is in use: a date, or 90d for ninety days ago',
    options: [
      { flags: '--dry-run', says: 'only say which would go' },
      { flags: '--forget-bus <name...>', says: 'a bus that is no longer used, for which nothing has to stay' },
    ],
    examples: ['mplp store trim 90d --dry-run', 'mplp store trim 2026-08-01'],
    load: () => import('./store-trim.ts'),
  },
  {
    usage: 'store stats',
    says: 'how much is in the store, and what the store promises',
    examples: ['mplp store stats'],
    load: () => import('./store-stats.ts'),
  },
  {
    usage: 'golden [folder]',
    says: 'run golden flows, ours or a folder of yours, on real stores',
    options: [
      {
        flags: '--backends <names>',
        says: 'of memory, file, sqlite, comma separated; any with --driver',
        fallback: 'memory,file,sqlite',
      },
      { flags: '--all', says: 'every kind of store; of Redis and Postgres those that are named below' },
      { flags: '--redis <url>', says: 'also on this Redis, under prefixes golden_…, which are taken away again' },
      { flags: '--postgres <url>', says: 'also on this Postgres, in schemas golden_…, which are taken away again' },
      { flags: '--driver <module>', says: 'another runtime than this one: a module whose default export is a driver' },
      { flags: '--filter <text>', says: 'only flows whose name or rule contains this' },
      { flags: '--reporter <name>', says: 'human, json, junit, tap or compliance', fallback: 'human' },
    ],
    examples: [
      'mplp golden',
      'mplp golden --backends memory --filter approval',
      'mplp golden --all --redis redis://localhost --postgres postgres://localhost/mplp --json',
      'mplp golden --reporter compliance',
    ],
    load: () => import('./golden.ts'),
  },
  {
    usage: 'doctor',
    says: 'what is wrong here, what waits for what, and the remedy',
    examples: ['mplp doctor', 'mplp doctor --json'],
    load: () => import('./doctor.ts'),
  },
  {
    usage: 'serve',
    says: 'run what is submitted over HTTP, until Ctrl-C',
    options: [
      { flags: '--host <host>', says: 'where to listen: 127.0.0.1; any other needs tokens in the config' },
      { flags: '--port <port>', says: 'which port: 7117; 0 takes a free one' },
    ],
    examples: ['mplp serve', 'mplp serve --port 0 --json'],
    load: () => import('./serve.ts'),
  },
  {
    usage: 'config print',
    says: 'what file, environment and flags say, secrets covered',
    options: [{ flags: '--effective', says: 'with what holds where nothing is said' }],
    examples: ['mplp config print', 'mplp config print --effective --json'],
    load: () => import('./config-print.ts'),
  },
  {
    usage: 'version',
    says: 'runtime, protocol and profiles',
    examples: ['mplp version --json'],
    load: () => import('./version.ts'),
  },
]
