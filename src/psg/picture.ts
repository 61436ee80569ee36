import { NotFound } from '../protocol/errors.ts'
import type { AnyNode, Kind } from './change.ts'
import { checkName } from './input.ts'
import { isKind, nodeKey, statusOf } from './node.ts'
import type { GraphState } from './state.ts'
import { children } from './view.ts'

/** What to draw: a plan's steps and what they wait for, or everything loaded. */
export type Subject = { readonly plan: string } | 'context'

/** A picture as Mermaid text. Throws NotFound for a plan that is not loaded. */
export function mermaid(state: GraphState, what: Subject): string {
  const { nodes, edges } = picture(state, what)
  return [
    'flowchart LR',
    ...nodes.map(
      ({ name, label, status }) => `  ${name}["${escaped(label)}"]${isColoured(status) ? `:::${status}` : ''}`,
    ),
    ...edges.map(({ from, to, type }) => (type === '' ? `  ${from} --> ${to}` : `  ${from} -- ${type} --> ${to}`)),
    ...Object.entries(COLOURS).map(([status, colour]) => `  classDef ${status} fill:${colour}`),
  ].join('\n')
}

/** The same in the language of Graphviz. */
export function dot(state: GraphState, what: Subject): string {
  const { nodes, edges } = picture(state, what)
  return [
    'digraph psg {',
    '  rankdir=LR; node [shape=box, style="rounded,filled", fillcolor=white];',
    ...nodes.map(
      ({ name, label, status }) =>
        `  ${name} [label=${quoted(label)}${isColoured(status) ? `, fillcolor="${COLOURS[status]}"` : ''}];`,
    ),
    ...edges.map(({ from, to, type }) => `  ${from} -> ${to}${type === '' ? '' : ` [label=${quoted(type)}]`};`),
    '}',
  ].join('\n')
}

/** Mermaid reads `#name;` in a text as a character, and a few characters as its own. */
const escaped = (text: string): string =>
  text.replace(/[#"<>`&]/g, (character) => `#${character.charCodeAt(0)};`).replace(/\s+/g, ' ')
const quoted = (text: string): string => `"${text.replace(/[\\"]/g, '\\$&').replace(/\r?\n/g, '\\n')}"`
const isColoured = (status: string | undefined): status is string =>
  status !== undefined && Object.hasOwn(COLOURS, status)

const COLOURS: { readonly [status: string]: string } = {
  pending: '#eeeeee',
  in_progress: '#cfe8ff',
  completed: '#d4f4d2',
  failed: '#ffd1d1',
  skipped: '#f5f5dc',
  blocked: '#ffe6c7',
  approved: '#d4f4d2',
  rejected: '#ffd1d1',
}

/** Kinds that say something to a person; the machinery in between is left out. */
const SHOWN: ReadonlySet<Kind> = new Set([
  'context',
  'plan',
  'step',
  'confirm',
  'trace',
  'role',
  'extension',
  'dialog',
  'collab',
  'network',
  'file',
])

export interface Picture {
  /** `name` is what edges call a node. */
  readonly nodes: readonly {
    readonly name: string
    readonly kind: Kind
    readonly id: string
    readonly label: string
    readonly status?: string
  }[]
  readonly edges: readonly { readonly from: string; readonly to: string; readonly type: string }[]
}

/** What the two languages draw, for those who draw themselves. */
export function picture(state: GraphState, what: Subject): Picture {
  if (what !== 'context') {
    checkName('plan', Object(what).plan)
    if (!state.has('plan', what.plan)) throw new NotFound('plan', what.plan)
  }
  const shown =
    what === 'context' ? [...state.nodes()].filter((node) => SHOWN.has(node.kind)) : children(state, 'plan', what.plan)
  const names = new Map(shown.map((node, i) => [nodeKey(node.kind, node.id), `n${i}`]))
  const edges = shown.flatMap((node) => {
    const from = names.get(nodeKey(node.kind, node.id))!
    if (what !== 'context')
      return (isKind(node, 'step') ? (node.data.dependencies ?? []) : []).map((id) => ({
        from: names.get(nodeKey('step', id))!,
        to: from,
        type: '',
      }))
    return [...state.targets(node.kind, node.id)].flatMap((target) => {
      const to = names.get(nodeKey(target.kind, target.id))
      return to === undefined ? [] : [{ from, to, type: edgeName(node, target) }]
    })
  })
  const nodes = shown.map((node) => {
    const { kind, id } = node
    return { name: names.get(nodeKey(kind, id))!, kind, id, ...labelled(node) }
  })
  return { nodes, edges }
}

function labelled(node: AnyNode): { label: string; status?: string } {
  const data = node.data as { title?: string; description?: string; name?: string; path?: string }
  const status = statusOf(node)
  const text = data.title ?? data.description ?? data.name ?? data.path ?? `${node.kind} ${node.id.slice(0, 8)}`
  return { label: status === undefined ? text : `${text} (${status})`, ...(status !== undefined && { status }) }
}

const edgeName = (from: AnyNode, to: AnyNode): string =>
  from.kind === 'step' && to.kind === 'step'
    ? 'waits for'
    : from.kind === 'confirm'
      ? 'confirms'
      : to.kind === 'step'
        ? 'contains'
        : to.kind === 'context'
          ? 'in'
          : 'of'
