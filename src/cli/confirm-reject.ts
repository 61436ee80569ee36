import { deciding } from './decide.ts'

export const run = deciding('rejected')
