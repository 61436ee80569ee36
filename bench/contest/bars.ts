import { type Bar, figure, type Plot } from '../report.ts'

const WIDTH = 720
const LABEL = 150
const FIGURES = 110
const ROW = 26
const TOP = 44

/** Bars as a picture of its own, for a page that is light or dark: what the reader's system prefers decides. */
export function barsSvg(title: string, { unit, bars }: Plot): string {
  const most = Math.max(...bars.map(({ value, spread }) => spread?.[1] ?? value))
  const x = (value: number) => (value / most) * (WIDTH - LABEL - FIGURES)
  const height = TOP + bars.length * ROW + 10
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">
<title>${escaped(title)}</title>
<style>
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 }
.unit, .spread { fill: #57606a; stroke: #57606a }
.unit { stroke: none; font-size: 12px }
.ours { fill: #1a7f37 } .peer { fill: #8250df } .limit { fill: #8c959f }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .unit { fill: #9da7b3 } .spread { stroke: #9da7b3 }
  .ours { fill: #3fb950 } .peer { fill: #a371f7 } .limit { fill: #6e7681 }
}
</style>
<text class="title" x="8" y="18">${escaped(title)}</text>
<text class="unit" x="8" y="35">${escaped(unit)}; the line shows the slowest and the fastest round</text>
${bars.map((bar, i) => row(bar, TOP + i * ROW, x)).join('\n')}
</svg>
`
}

function row({ label, value, spread, kind }: Bar, y: number, x: (value: number) => number): string {
  const middle = y + ROW / 2
  const line = spread
    ? `<path class="spread" d="M${px(LABEL + x(spread[0]))} ${middle}H${px(LABEL + x(spread[1]))}" stroke-width="2"/>`
    : ''
  const after = LABEL + x(Math.max(value, spread?.[1] ?? 0)) + 8
  return `<text x="${LABEL - 8}" y="${middle + 4}" text-anchor="end">${escaped(label)}</text>
<rect class="${kind}" x="${LABEL}" y="${y + 4}" width="${px(Math.max(1, x(value)))}" height="${ROW - 8}" rx="2"/>${line}
<text x="${px(after)}" y="${middle + 4}">${figure(value)}</text>`
}

const px = (value: number): string => value.toFixed(1)
const escaped = (text: string): string => text.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`)
