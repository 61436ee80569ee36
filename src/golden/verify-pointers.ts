import { join } from 'node:path'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { sha256 } from './pack.ts'
import {
  checkNames,
  type Found,
  type PackFiles,
  POINTERS,
  parsed,
  readPlain,
  TIMELINE,
  timelineIn,
} from './pack-files.ts'
import { DECISIONS } from './pointers.ts'

const MOST_BYTES = 1024 * 1024

/**
 * The pointers that may lie beside a pack: they are those that its manifest knows, if it knows any, each that is PRESENT leads to an event of the timeline that
 * shows what it claims, and nothing executes after an end.
 */
export async function checkPointers(folder: string, files: PackFiles, found: Found): Promise<void> {
  const bytes = await readPlain(join(folder, POINTERS), MOST_BYTES).catch((error: NodeJS.ErrnoException) => error)
  const sum = sumIn(files)
  if (bytes instanceof Error) {
    if (bytes.code !== 'ENOENT') found('pointers.readable', POINTERS, `cannot be read: ${bytes.code ?? bytes.message}`)
    else if (sum !== undefined) found('pointers.missing', POINTERS, 'has a checksum in the manifest but is not there')
    return
  }
  if (sum !== undefined && bytes !== 'too large' && sum !== sha256(bytes))
    found('pointers.sum', POINTERS, 'is not what its checksum in the manifest says')
  const text = bytes === 'too large' ? '' : bytes.toString('utf8')
  const value = parsed(text)
  checkNames(text, POINTERS, found)
  const pointers = isObject(value) ? value.pointers : undefined
  if (!Array.isArray(pointers)) return found('pointers.json', POINTERS, 'is no list of pointers')
  const timeline = read(files)
  for (const [i, pointer] of pointers.entries())
    checkPointer(isObject(pointer) ? (pointer as JsonObject) : {}, `${POINTERS}:pointers[${i}]`, timeline, found)
}

/** The timeline as pointers are checked by it: there may be thousands of them, and a hundred thousand events. */
interface Timeline {
  readonly events: readonly JsonObject[]
  readonly places: ReadonlyMap<string, number>
  /** The first execution after a place, unless it is of a way back that was announced after it: that has a trace of its own. */
  executedAfter(place: number): JsonObject | undefined
}

function read(files: PackFiles): Timeline {
  const events: JsonObject[] = []
  const places = new Map<string, number>()
  const waysBack = new Map<Json, number>()
  const announced: number[] = [] // of each event that executes, where its way back was last announced; -1 where it never was
  for (const [event] of timelineIn(files)) {
    if (!isObject(event)) continue
    const place = events.push(event as JsonObject) - 1
    const name = `event_id:${String(event.event_id)}`
    if (!places.has(name)) places.set(name, place)
    const trace = isObject(event.payload) ? event.payload.trace_id : undefined
    if (event.event_type === 'rollback_planned' && trace !== undefined) waysBack.set(trace, place)
    announced.push(executes(event as JsonObject) ? (waysBack.get(trace as Json) ?? -1) : Number.POSITIVE_INFINITY)
  }
  const earliest = [...announced, Number.POSITIVE_INFINITY] // announced at a place or later
  for (let i = announced.length - 1; i >= 0; i--) earliest[i] = Math.min(earliest[i]!, earliest[i + 1]!)
  return {
    events,
    places,
    executedAfter(place) {
      if (earliest[place + 1]! > place) return undefined
      return events[announced.findIndex((at, i) => i > place && at <= place)]
    },
  }
}

/** What the manifest says of them; of another's pack it need not say anything. */
function sumIn(files: PackFiles): Json | undefined {
  const manifest = parsed(files.get('manifest.json')?.toString('utf8') ?? '')
  const pointers = isObject(manifest) ? manifest.evidence_pointers : undefined
  return isObject(pointers) ? pointers.sha256 : pointers
}

function checkPointer(pointer: JsonObject, at: string, timeline: Timeline, found: Found): void {
  const { requirement_id, artifact_path, locator, status } = pointer
  const name = String(requirement_id)
  const shows = Object.hasOwn(DECISIONS, name) ? DECISIONS[name] : undefined
  if (!shows) return found('pointers.requirement', at, `${name} is no requirement`)
  if (status === 'ABSENT') return
  if (status !== 'PRESENT') return found('pointers.status', at, 'must be PRESENT or ABSENT')
  if (artifact_path !== TIMELINE) return found('pointers.path', at, 'must lead into the timeline')
  const place = timeline.places.get(locator as string)
  if (place === undefined) return found('pointers.locator', at, `${String(locator)} is not in the timeline`)
  if (!shows(timeline.events[place]!))
    return found('pointers.event', at, `${String(locator)} does not show ${requirement_id}`)
  const ends = requirement_id === 'RQ-D2-01' || requirement_id === 'RQ-D4-01'
  const later = ends ? timeline.executedAfter(place) : undefined
  if (later) found('pointers.after_end', at, `${String(later.event_type)} comes after the end`)
}

const executes = ({ event_type }: JsonObject): boolean =>
  /execut|dispatch|invok/i.test(String(event_type)) && !/rollback/.test(String(event_type))
