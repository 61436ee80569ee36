// What `mplp-runtime/testing` offers: the suites that every member of a family keeps, for members of your own.
export * from './transport-contract.ts'
