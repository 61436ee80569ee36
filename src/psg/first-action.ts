/**
 * The id of a step's first action: the step's own, with its first and its last eight digits in each other's place. Done twice it leads back, so that
 * such an action is found through its step and needs no place in the index of ids, which would be a row more for every step that is done.
 */
export const firstActionOf = (step: string): string => step.slice(28) + step.slice(8, 28) + step.slice(0, 8)
/** The step whose first action this would be. */
export const stepOfFirst = (action: string): string => firstActionOf(action)
