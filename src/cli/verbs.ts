import type { Verb } from './verb.ts'

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
    options: [
      ['--detach', 'submit and leave; another worker, or `mplp resume`, runs it'],
      ['--approve <role>', 'approve whatever is asked, in this role'],
      ['--events', 'print events as they are committed'],
    ],
    examples: ['mplp run flow.json', 'mplp run flow.yaml --events', 'mplp run flow.json --approve lead --json'],
    load: () => import('./run.ts'),
  },
  {
    usage: 'resume',
    says: 'take up every run that nobody looks after, until none is left',
    examples: ['mplp resume'],
    load: () => import('./resume.ts'),
  },
  {
    usage: 'list',
    says: 'what runs and what waits',
    examples: ['mplp list', 'mplp list --json'],
    load: () => import('./list.ts'),
  },
  {
    usage: 'show <id>',
    says: 'an object by its id, as an L1 document',
    examples: ['mplp show 3f0c…'],
    load: () => import('./show.ts'),
  },
  {
    usage: 'why <id>',
    says: 'the chain that led to a node: context, plan, approval, step, action',
    examples: ['mplp why 3f0c…'],
    load: () => import('./why.ts'),
  },
  {
    usage: 'history <id>',
    says: 'every change of a node, with who and why',
    examples: ['mplp history 3f0c…'],
    load: () => import('./history.ts'),
  },
  {
    usage: 'graph <id>',
    says: 'a plan, or a whole context, as a picture',
    options: [
      ['--mermaid', 'as Mermaid (the default)'],
      ['--dot', 'as Graphviz'],
    ],
    examples: ['mplp graph 3f0c…', 'mplp graph 3f0c… --dot | dot -Tsvg > plan.svg'],
    load: () => import('./graph.ts'),
  },
  {
    usage: 'events',
    says: 'what was committed, oldest first',
    options: [
      ['--follow', 'go on as more is committed'],
      ['--family <names>', 'only these families, comma separated'],
      ['--plan <id>', 'only this plan'],
      ['--after <position>', 'only what came after'],
    ],
    examples: ['mplp events --family pipeline_stage', 'mplp events --follow --json'],
    load: () => import('./events.ts'),
  },
  {
    usage: 'confirm list',
    says: 'what waits for a person',
    examples: ['mplp confirm list'],
    load: () => import('./confirm-list.ts'),
  },
  {
    usage: 'confirm approve <id>',
    says: 'approve what a Confirm asks',
    options: [
      ['--role <role>', 'in which role you decide', 'user'],
      ['--reason <text>', 'why'],
    ],
    examples: ['mplp confirm approve 3f0c… --role dba --reason "backup checked"'],
    load: () => import('./confirm-approve.ts'),
  },
  {
    usage: 'confirm reject <id>',
    says: 'reject what a Confirm asks',
    options: [
      ['--role <role>', 'in which role you decide', 'user'],
      ['--reason <text>', 'why'],
    ],
    examples: ['mplp confirm reject 3f0c… --reason "no backup"'],
    load: () => import('./confirm-reject.ts'),
  },
  {
    usage: 'cancel <id>',
    says: 'end a run: what is under way is told to stop',
    examples: ['mplp cancel 3f0c…'],
    load: () => import('./cancel.ts'),
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
    usage: 'serve',
    says: 'run what is submitted over HTTP, until Ctrl-C',
    options: [
      ['--host <host>', 'where to listen: 127.0.0.1; any other needs tokens in the config'],
      ['--port <port>', 'which port: 7117; 0 takes a free one'],
    ],
    examples: ['mplp serve', 'mplp serve --port 0 --json'],
    load: () => import('./serve.ts'),
  },
  {
    usage: 'config print',
    says: 'the config in force, secrets covered',
    examples: ['mplp config print'],
    load: () => import('./config-print.ts'),
  },
  {
    usage: 'version',
    says: 'runtime, protocol and profiles',
    examples: ['mplp version --json'],
    load: () => import('./version.ts'),
  },
]
