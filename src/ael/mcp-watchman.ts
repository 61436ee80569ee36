import { spawn } from 'node:child_process'

/**
 * Ends a process group once this process is gone, however it went: not every server ends with its stdin, and each crash would leave one more behind.
 * A shell is the smallest thing that outlives us and notices; where there is none, nobody watches. What is given dismisses it.
 */
export function watchman(group: number): () => void {
  const script = `read -r _; sleep 1; kill -s TERM -- -${group} && sleep 1 && kill -s KILL -- -${group}`
  const shell = spawn('/bin/sh', ['-c', script], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
  shell.on('error', () => undefined)
  shell.unref()
  return () => void shell.kill('SIGKILL')
}
