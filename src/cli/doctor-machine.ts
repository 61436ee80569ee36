import { readFile } from 'node:fs/promises'
import type { Check } from './doctor.ts'

export function checkNode(version: string): Check {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > 20 || (major === 20 && minor >= 19)
    ? { check: 'node', verdict: 'ok', says: version }
    : { check: 'node', verdict: 'failed', says: `${version} is too old`, remedy: 'install Node 20.19 or later' }
}

const ENOUGH_WATCHES = 65_536
const ENOUGH_INSTANCES = 128
const INOTIFY = '/proc/sys/fs/inotify'

/** Linux gives each user so many watched folders, and so many that watch; elsewhere nobody counts. */
export async function checkWatches(limits = INOTIFY): Promise<Check> {
  const limit = async (name: string) =>
    Number(await readFile(`${limits}/${name}`, 'utf8').catch(() => Number.POSITIVE_INFINITY)) // not Linux
  const [watches, instances] = [await limit('max_user_watches'), await limit('max_user_instances')]
  if (watches === Number.POSITIVE_INFINITY)
    return { check: 'watcher', verdict: 'ok', says: 'this system sets no limit' }
  const low = [
    ...(watches < ENOUGH_WATCHES ? [`max_user_watches=${ENOUGH_WATCHES * 8}`] : []),
    ...(instances < ENOUGH_INSTANCES ? [`max_user_instances=${ENOUGH_INSTANCES * 4}`] : []),
  ]
  const says = `up to ${watches} folders can be watched, by ${instances} processes`
  return low.length === 0
    ? { check: 'watcher', verdict: 'ok', says }
    : {
        check: 'watcher',
        verdict: 'warning',
        says: `only ${says}`,
        remedy: `sysctl -w ${low.map((setting) => `fs.inotify.${setting}`).join(' ')}`,
      }
}
