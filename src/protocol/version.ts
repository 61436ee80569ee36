/** The version this runtime gives itself in events, packs and answers; a test keeps it in step with the package. */
export const VERSION = '0.1.0'
