/** What was cut off so often may be what ends the process, or takes longer than the lease: nobody begins it again by himself. */
export const MOST_CUT_OFFS = 20
