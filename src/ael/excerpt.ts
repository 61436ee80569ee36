/** How much of what others say goes into an error. */
const MOST = 500

// A word that is cut through is left out whole: half a secret would not be known as one, and be seen.

export const beginningOf = (text: string): string =>
  text.length <= MOST ? text : `${text.slice(0, MOST).replace(/[^\s"'`<>{}[\](),;]+$/, '')}…`

export const endOf = (text: string): string =>
  text.length <= MOST ? text : `…${text.slice(-MOST).replace(/^[^\s"'`<>{}[\](),;]+/, '')}`
