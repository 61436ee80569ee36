// What `mplp-runtime/testing` offers: the suites that every member of a family keeps, for members of your own.
export { type AdapterRig, adapterContract } from './adapter-contract.ts'
export { backendContract, type ContractOptions, type FreshStore } from './backend-contract.ts'
export { type TransportRig, transportContract } from './transport-contract.ts'
