/** Large enough to lie in a blob; whoever finds this word in a store has found something in plain. */
export const PLAIN = 'this-is-to-be-sealed'
export const largeText = (name: string): string => `${PLAIN} ${name} `.repeat(5_000)
