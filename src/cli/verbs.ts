import type { PLAN_ENDINGS } from '../protocol/lifecycle.ts'
import type { Verb, VerbOption } from './verb.ts'

/** Spelt out: `mplp help` must not wait for what it does not need. */
const ENDINGS = ['completed', 'failed', 'cancelled'] as const satisfies typeof PLAN_ENDINGS
const STRATEGIES = ['graph', 'files', 'merge', 'ask']

/** What verbs of two words have in common, by the first. */
export const GROUPS: { readonly [word: string]: string } = {
  confirm: 'what waits for a person, and the answer',
  snapshot: 'names for states of a context, and the way back to them',
  drift: 'where a folder and the graph disagree',
  evidence: 'a run as a pack that others can check',
  store: 'the store itself: proof, copy, size',
  config: 'what is configured',
}

const DECIDING: readonly VerbOption[] = [
  { flags: '--role <role>', says: 'in which role you decide', fallback: 'user' },
  { flags: '--reason <text>', says: 'why' },
  {
    flags: '--digest <digest>',
    says: 'the digest that confirm list --json showed: refused if something else is asked by now',
  },
]

const SEEING: readonly VerbOption[] = [
  { flags: '--detach', says: 'only submit: another worker, or `mplp resume`, runs it' },
  { flags: '--approve <role>', says: 'approve everything the run asks, in this role' },
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
    says: 'go on where a run failed or was cancelled, without repeating what it had done, and wait for the end',
    options: [
      ...SEEING,
      { flags: '--options <json>', says: 'a deadline or a budget to replace that of the first run' },
      { flags: '--reason <text>', says: 'why' },
    ],
    examples: ['mplp rerun 3f0c…', `mplp rerun 3f0c… --options '{"deadline":"2030-01-01T00:00:00Z"}' --json`],
    load: () => import('./rerun.ts'),
  },
  {
    usage: 'resume [id]',
    says: 'carry on every run that no worker has, until none is left; with an id, continue that paused run',
    examples: ['mplp resume', 'mplp resume 3f0c…'],
    load: () => import('./resume.ts'),
  },
  {
    usage: 'list',
    says: 'runs that have not ended with what they wait for, and questions that wait for a person',
    options: [
      { flags: '--ended', says: 'runs that have ended instead, latest first' },
      { flags: '--status <name>', says: 'with --ended: only runs that ended like this', choices: ENDINGS },
      { flags: '--limit <n>', says: 'with --ended: at most this many (20)' },
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
    says: 'every change of a node, by whom and why',
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
      { flags: '--plan <id>', says: 'only this plan, by its id, its run’s or its trace’s' },
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
      { flags: '--limit <n>', says: 'at most this many, in the order of ids' },
      { flags: '--after <id>', says: 'only those after this one' },
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
    usage: 'propose <id>',
    says: 'put a plan that was sent back, or that of a run, up for approval again',
    options: [
      { flags: '--role <role>', says: 'on whose behalf', fallback: 'user' },
      { flags: '--reason <text>', says: 'why' },
    ],
    examples: ['mplp propose 3f0c…', 'mplp propose 3f0c… --reason "a backup was made"'],
    load: () => import('./propose.ts'),
  },
  {
    usage: 'signal <id> <name>',
    says: 'send a signal to a run: the step that waits for this name takes it',
    options: [{ flags: '--payload <json>', says: 'what the step gets as its output', fallback: 'null' }],
    examples: ['mplp signal 3f0c… paid', `mplp signal 3f0c… paid --payload '{"amount":12}'`],
    load: () => import('./signal.ts'),
  },
  {
    usage: 'pause <id>',
    says: 'stop a run at its next boundary, and its children with it',
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
    says: 'take back what an ended run did: effects, files, graph',
    options: [
      { flags: '--dry-run', says: 'only show what would be done, and what cannot be undone' },
      { flags: '--leave', says: 'leave what cannot be undone as it is, without asking' },
    ],
    examples: ['mplp rollback 3f0c… --dry-run', 'mplp rollback 3f0c…'],
    load: () => import('./rollback.ts'),
  },
  {
    usage: 'snapshot create <context> <name>',
    says: 'name the present state of a context',
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
    says: 'what differs between two snapshots or revisions, or between one and now',
    examples: ['mplp snapshot diff 3f0c… before-the-move', 'mplp snapshot diff 3f0c… 4 9 --json'],
    load: () => import('./snapshot-diff.ts'),
  },
  {
    usage: 'snapshot restore <context> <to>',
    says: 'go back to a snapshot or revision, by a new commit',
    options: [{ flags: '--dry-run', says: 'only show what would be done' }],
    examples: ['mplp snapshot restore 3f0c… before-the-move --dry-run'],
    load: () => import('./snapshot-restore.ts'),
  },
  {
    usage: 'watch [folder]',
    says: 'report changes in a folder that did not come through the graph, as they happen',
    options: [
      { flags: '--context <id>', says: 'compare with this context instead of the folder’s own' },
      { flags: '--strategy <name>', says: 'settle every change at once, like this', choices: STRATEGIES },
    ],
    onlyTells: true,
    examples: ['mplp watch .', 'mplp watch src --strategy files'],
    load: () => import('./watch.ts'),
  },
  {
    usage: 'drift scan [folder]',
    says: 'compare every file with the graph; the first scan takes all files in as they are',
    options: [{ flags: '--context <id>', says: 'compare with this context instead of the folder’s own' }],
    examples: ['mplp drift scan', 'mplp drift scan src --json'],
    load: () => import('./drift-scan.ts'),
  },
  {
    usage: 'drift list [folder]',
    says: 'findings that are not settled yet',
    options: [{ flags: '--context <id>', says: 'findings of this context instead of the folder’s own' }],
    examples: ['mplp drift list'],
    load: () => import('./drift-list.ts'),
  },
  {
    usage: 'drift diff <finding> [folder]',
    says: 'where graph and disk differ, line by line; names a finding by its path or id',
    options: [{ flags: '--context <id>', says: 'findings of this context instead of the folder’s own' }],
    examples: ['mplp drift diff notes.md'],
    load: () => import('./drift-diff.ts'),
  },
  {
    usage: 'drift reconcile <finding> [folder]',
    says: 'settle a finding, named by its path or id, or `all`',
    options: [
      { flags: '--strategy <name>', says: 'who wins', fallback: 'ask', choices: STRATEGIES },
      { flags: '--context <id>', says: 'findings of this context instead of the folder’s own' },
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
    says: 'check the whole store: journal, values, references, indexes',
    examples: ['mplp store verify'],
    load: () => import('./store-verify.ts'),
  },
  {
    usage: 'store reindex [context]',
    says: 'rebuild what is wrong in the indexes, as `store verify` reports it',
    examples: ['mplp store reindex'],
    load: () => import('./store-reindex.ts'),
  },
  {
    usage: 'store copy <to>',
    says: 'copy the whole store into an empty one, and compare',
    options: [
      {
        flags: '--without-ended <before>',
        says: 'leave out contexts that ended before then: a date, or 90d for ninety days ago',
      },
      {
        flags: '--forget-bus <name...>',
        says: 'with --without-ended: keep nothing for this bus, which is no longer used',
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
    says: 'remove contexts that ended before then, also while the store is in use: a date, or 90d for ninety days ago',
    options: [
      { flags: '--dry-run', says: 'only show which would be removed' },
      { flags: '--forget-bus <name...>', says: 'keep nothing for this bus, which is no longer used' },
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
      { flags: '--all', says: 'every kind of store; Redis and Postgres where --redis and --postgres name them' },
      { flags: '--redis <url>', says: 'also on this Redis, under prefixes golden_…, removed afterwards' },
      { flags: '--postgres <url>', says: 'also on this Postgres, in schemas golden_…, removed afterwards' },
      { flags: '--driver <module>', says: 'test another runtime: a module whose default export is a driver' },
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
    says: 'serve HTTP and run what is submitted, until Ctrl-C',
    options: [
      { flags: '--host <host>', says: 'where to listen (127.0.0.1); any other host needs tokens in the config' },
      { flags: '--port <port>', says: 'which port (7117); 0 takes a free one' },
    ],
    examples: ['mplp serve', 'mplp serve --port 0 --json'],
    load: () => import('./serve.ts'),
  },
  {
    usage: 'config print',
    says: 'the config from file, environment and flags, secrets covered',
    options: [{ flags: '--effective', says: 'with the defaults that apply' }],
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
