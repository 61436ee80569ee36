/** Listeners that fail with this, each with how: at once, or by a promise that nobody waits for. */
export const failingListeners = (message: string) =>
  [
    [
      'throws',
      () => {
        throw new Error(message)
      },
    ],
    ['fails later', () => Promise.reject(new Error(message))],
  ] as const
