import { readFileSync, readlinkSync } from 'node:fs'
import { needed, refuseUnlessFit, text } from '../protocol/fields.ts'
import type { Holder } from './backend.ts'

/** This process as the holder of leases, under an id of its own. */
export function thisHolder(id: string): Holder {
  refuseUnlessFit('holder', { id }, { id: needed(text) })
  return { id, boot: bootId(), pid: process.pid, started: processAt(process.pid)?.started ?? '' }
}

/** A lease as a store keeps it: until when, by the store's own clock. */
export interface Held {
  readonly holder: Holder
  readonly until: number
  /** How long it was given for, where that is kept. */
  readonly ttlMs?: number | undefined
}

/** May `holder` take the stream now? */
export const isFree = (held: Held | undefined, holder: Holder, now: number): boolean =>
  held === undefined || held.until <= now || held.holder.id === holder.id || holderIsGone(held.holder)

/**
 * When it ends instead, if more is left of it than it was given for: the clock was set back, or is another machine's. It gets its full time from now, so
 * that whoever lives renews it before that.
 */
export const shortened = ({ until, ttlMs }: Held, now: number): number | undefined =>
  ttlMs !== undefined && until - now > ttlMs ? now + ttlMs : undefined

/** True only when it is certain: same machine, same boot, and no such process any more. */
export function holderIsGone(holder: Holder): boolean {
  if (holder.boot === '' || holder.boot !== bootId()) return false
  const process = processAt(holder.pid)
  if (process === undefined) return !isAlive(holder.pid)
  return process.ended || process.started !== holder.started
}

let boot: string | undefined
/**
 * The machine's boot and, because two containers share one boot but do not see each other's processes, the space in which a pid means something.
 * Empty where the machine does not tell; then nobody is ever taken for gone.
 */
function bootId(): string {
  boot ??= [readText('/proc/sys/kernel/random/boot_id')?.trim(), pidSpace()].filter(Boolean).join(' ')
  return boot
}

function pidSpace(): string | undefined {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return undefined // no namespaces here: there is one space of pids
  }
}

/** Fields 3 and 22 of stat, counted after the command's name, which may itself hold spaces and brackets. */
function processAt(pid: number): { started: string | undefined; ended: boolean } | undefined {
  const stat = readText(`/proc/${pid}/stat`)
  if (stat === undefined) return undefined
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return { started: fields[19], ended: fields[0] === 'Z' || fields[0] === 'X' } // dead, but not yet buried by its parent
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined // not Linux, or no such process: the caller has another way to tell
  }
}
