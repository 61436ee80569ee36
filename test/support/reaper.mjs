// Ends the processes and removes the folders of whoever started it, as soon as that one is gone: its death, even by SIGKILL, closes our stdin.
// Plain JavaScript, because it must be up before the first server is.
import { rmSync } from 'node:fs'
import { createInterface } from 'node:readline'

const processes = new Map()
const folders = new Set()

const verbs = {
  own: (pid, signal) => processes.set(Number(pid), signal),
  disown: (pid) => processes.delete(Number(pid)),
  folder: (path) => folders.add(path),
}

for await (const line of createInterface({ input: process.stdin })) {
  const [verb, ...rest] = JSON.parse(line)
  verbs[verb](...rest)
}

for (const [pid, signal] of processes) send(pid, signal)
for (let waited = 0; waited < 5000 && [...processes.keys()].some((pid) => send(pid, 0)); waited += 20) {
  await new Promise((resolve) => setTimeout(resolve, 20))
}
for (const pid of processes.keys()) send(pid, 'SIGKILL')
for (const path of folders) rmSync(path, { recursive: true, force: true, maxRetries: 5 })

function send(pid, signal) {
  try {
    process.kill(-pid, signal) // the whole group
    return true
  } catch (error) {
    if (error.code === 'ESRCH') return false
    throw error
  }
}
