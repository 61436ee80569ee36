interface Server {
  config(command: 'GET', name: string): Promise<unknown>
}

/**
 * What of its settings decides whether a server keeps what it confirms: whether it may throw keys away, and whether the confirmed outlasts a loss of
 * power. Throws its reply where the user may not ask.
 */
export async function settingsOf(redis: Server): Promise<{ readonly policy: string; readonly durable: boolean }> {
  const setting = async (name: string) => ((await redis.config('GET', name)) as string[])[1]
  const [policy = '', appendonly, appendfsync, unsynced] = await Promise.all(
    ['maxmemory-policy', 'appendonly', 'appendfsync', 'no-appendfsync-on-rewrite'].map(setting),
  )
  return { policy, durable: appendonly === 'yes' && appendfsync === 'always' && unsynced !== 'yes' }
}
