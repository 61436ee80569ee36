import { prepareServers } from '../test/support/start-servers.ts'

// Before `npm test`, so that what is installed or fetched can be watched.
await prepareServers()
