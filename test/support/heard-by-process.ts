import { onTestFinished } from 'vitest'

/** What Node tells the process from now on, until the test has finished. */
export function heardByProcess(event: 'warning' | 'unhandledRejection'): readonly unknown[] {
  const heard: unknown[] = []
  const hear = (told: unknown) => void heard.push(told)
  process.on(event, hear)
  onTestFinished(() => void process.off(event, hear))
  return heard
}
