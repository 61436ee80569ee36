import { basename } from 'node:path'

/** As V8 writes it: a tree of calls, and which node of it was met at each sample. */
export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number }
    readonly children?: readonly number[]
  }[]
  readonly samples: readonly number[]
  /** Microseconds between samples. */
  readonly timeDeltas: readonly number[]
}

export interface Hot {
  /** Function, file and line. */
  readonly where: string
  readonly selfMs: number
  /** Of the time in which anything ran. */
  readonly share: number
}

/** Functions by the time spent in them alone, wherever they were called from. */
export function hottest(profile: CpuProfile, count: number): readonly Hot[] {
  const own = selfTimes(profile)
  const byWhere = new Map<string, number>()
  for (const node of profile.nodes) {
    if (IDLE.has(node.callFrame.functionName)) continue
    byWhere.set(whereOf(node.callFrame), (byWhere.get(whereOf(node.callFrame)) ?? 0) + (own.get(node.id) ?? 0))
  }
  const all = [...byWhere.values()].reduce((sum, micros) => sum + micros, 0)
  return [...byWhere]
    .sort(([, a], [, b]) => b - a)
    .slice(0, count)
    .map(([where, micros]) => ({ where, selfMs: micros / 1000, share: micros / all }))
}

const IDLE: ReadonlySet<string> = new Set(['(root)', '(idle)', '(program)'])
const WIDTH = 1_600
const ROW = 17
const NARROWEST = 0.7

/** Callers below, what they call above; as wide as the time in it. Names show where they fit, and all of them when pointed at. */
export function flameSvg(title: string, profile: CpuProfile): string {
  const own = selfTimes(profile)
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]))
  const boxes: string[] = []
  let deepest = 0

  const tree = merged(profile.nodes[0]!.id)
  const scale = WIDTH / tree.micros
  draw(tree, 0, 0)
  const height = (deepest + 2) * ROW + 24
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}">
<title>${escaped(title)}</title>
<style>svg { background: #fff } text { font: 11px monospace; fill: #222; pointer-events: none } rect { stroke: #fff; stroke-width: 0.5 }
@media (prefers-color-scheme: dark) { svg { background: #0d1117 } rect { stroke: #0d1117 } .title { fill: #e6edf3 } }</style>
<text class="title" x="6" y="15">${escaped(title)}: ${(tree.micros / 1e6).toFixed(2)} s</text>
<g transform="translate(0 ${height - ROW})">
${boxes.join('\n')}
</g></svg>
`

  interface Frame {
    readonly where: string
    micros: number
    readonly calls: Map<string, Frame>
  }
  /** The same function called by the same one is one box, however many nodes V8 has made of it. */
  function merged(id: number, into?: Frame): Frame {
    const { callFrame, children = [] } = nodes.get(id)!
    const frame = into ?? { where: whereOf(callFrame), micros: 0, calls: new Map() }
    frame.micros += own.get(id) ?? 0
    for (const child of children) {
      const called = nodes.get(child)!.callFrame
      if (called.functionName === '(idle)') continue
      const where = whereOf(called)
      const known = frame.calls.get(where) ?? { where, micros: 0, calls: new Map() }
      frame.calls.set(where, known)
      const before = known.micros
      merged(child, known)
      frame.micros += known.micros - before
    }
    return frame
  }
  function draw(frame: Frame, x: number, depth: number): void {
    const width = frame.micros * scale
    if (width < NARROWEST) return
    deepest = Math.max(deepest, depth)
    const y = -(depth + 1) * ROW
    const fits = Math.floor(width / 6.7)
    const label =
      fits > 3 ? `<text x="${(x + 2).toFixed(1)}" y="${y + 12}">${escaped(frame.where.slice(0, fits))}</text>` : ''
    boxes.push(
      `<g><title>${escaped(frame.where)}: ${(frame.micros / 1000).toFixed(1)} ms, ${((100 * frame.micros) / tree.micros).toFixed(1)} %</title>` +
        `<rect x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${ROW}" fill="${colourOf(frame.where)}"/>${label}</g>`,
    )
    let at = x
    for (const call of [...frame.calls.values()].sort((a, b) => b.micros - a.micros)) {
      draw(call, at, depth + 1)
      at += call.micros * scale
    }
  }
}

function selfTimes({ samples, timeDeltas }: CpuProfile): ReadonlyMap<number, number> {
  const own = new Map<number, number>()
  for (const [i, id] of samples.entries()) own.set(id, (own.get(id) ?? 0) + Math.max(0, timeDeltas[i + 1] ?? 0))
  return own
}

function whereOf({ functionName, url, lineNumber }: CpuProfile['nodes'][number]['callFrame']): string {
  const name = functionName || '(anonymous)'
  return url === '' ? name : `${name} ${fileOf(url)}:${lineNumber + 1}`
}

/** Enough of the path to find it: the room of ours, the package of others. */
function fileOf(url: string): string {
  const [, ours] = url.split('/dist/src/')
  if (ours !== undefined) return ours
  const [, ...packages] = url.split('/node_modules/')
  return packages.length > 0 ? packages.at(-1)! : url.startsWith('node:') ? url : basename(url)
}

function colourOf(where: string): string {
  let sum = 0
  for (const sign of where.split(' ').at(-1)!.split(':')[0]!) sum = (sum * 31 + sign.charCodeAt(0)) % 360
  return `hsl(${sum} 55% 72%)`
}

const escaped = (text: string): string => text.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`)
