/** What every object of the protocol says of itself. */
export const META = { protocol_version: '1.0.0', schema_version: '1.0.0' } as const
