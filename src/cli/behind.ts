/** What keeps contexts in a store that have ended, and what would help; nothing where no bus is behind. */
export const saidBehind = (buses: readonly string[]): readonly string[] =>
  buses.length === 0
    ? []
    : [
        `some stay because they have not been told of yet by ${buses.join(', ')}: mplp resume tells them, or mplp serve where the bus lives in its process, as mplp.serve does; --forget-bus leaves out a bus that is no longer used`,
      ]
