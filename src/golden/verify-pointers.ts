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
  const events = (timelineIn(files) ?? []).flatMap(([, event]) => (isObject(event) ? [event as JsonObject] : []))
  for (const [i, pointer] of pointers.entries())
    checkPointer(isObject(pointer) ? (pointer as JsonObject) : {}, `${POINTERS}:pointers[${i}]`, events, found)
}

/** What the manifest says of them; of another's pack it need not say anything. */
function sumIn(files: PackFiles): Json | undefined {
  const manifest = parsed(files.get('manifest.json')?.toString('utf8') ?? '')
  const pointers = isObject(manifest) ? manifest.evidence_pointers : undefined
  return isObject(pointers) ? pointers.sha256 : pointers
}

function checkPointer(pointer: JsonObject, at: string, events: readonly JsonObject[], found: Found): void {
  const { requirement_id, artifact_path, locator, status } = pointer
  const name = String(requirement_id)
  const shows = Object.hasOwn(DECISIONS, name) ? DECISIONS[name] : undefined
  if (!shows) return found('pointers.requirement', at, `${name} is no requirement`)
  if (status === 'ABSENT') return
  if (status !== 'PRESENT') return found('pointers.status', at, 'must be PRESENT or ABSENT')
  if (artifact_path !== TIMELINE) return found('pointers.path', at, 'must lead into the timeline')
  const place = events.findIndex(({ event_id }) => `event_id:${String(event_id)}` === locator)
  if (place < 0) return found('pointers.locator', at, `${String(locator)} is not in the timeline`)
  if (!shows(events[place]!)) return found('pointers.event', at, `${String(locator)} does not show ${requirement_id}`)
  const ends = requirement_id === 'RQ-D2-01' || requirement_id === 'RQ-D4-01'
  const later = ends ? executedIn(events.slice(place + 1)) : undefined
  if (later) found('pointers.after_end', at, `${String(later.event_type)} comes after the end`)
}

/** The first execution, unless it is of a way back that was announced before it: that has a trace of its own. */
function executedIn(events: readonly JsonObject[]): JsonObject | undefined {
  const waysBack = new Set<unknown>()
  return events.find((event) => {
    const trace = isObject(event.payload) ? event.payload.trace_id : undefined
    if (event.event_type === 'rollback_planned' && trace !== undefined) waysBack.add(trace)
    return executes(event) && !waysBack.has(trace)
  })
}

const executes = ({ event_type }: JsonObject): boolean =>
  /execut|dispatch|invok/i.test(String(event_type)) && !/rollback/.test(String(event_type))
