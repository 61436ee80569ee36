/** After so many no process begins an action again by itself: it may be what ends the process, or take longer than the lease. */
export const MOST_CUT_OFFS = 20
