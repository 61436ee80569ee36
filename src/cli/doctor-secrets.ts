import { calledSecrets, type McpServer } from '../ael/mcp-server.ts'
import { SHORTEST } from '../ael/redact.ts'
import { apiKeyName, type Config, secretFromEnv } from '../config.ts'
import type { Check } from './doctor.ts'

/** What is too short to be taken out of what is stored and shown: those who set it up would take it for covered. */
export function checkSecrets({ models = {}, mcp = {} }: Config): readonly Check[] {
  const secrets = [
    ...Object.entries(models).map(([name, model]) => {
      const variable = apiKeyName(model)
      return [`models.${name}`, variable === undefined ? '' : (secretFromEnv(variable) ?? '')] as const
    }),
    ...Object.entries(mcp).flatMap(([name, server]) =>
      calledBy(server).map(([at, value]) => [`mcp.${name}.${at}`, value] as const),
    ),
  ]
  const short = secrets.filter(([, value]) => value.trim() !== '' && value.trim().length < SHORTEST)
  if (short.length === 0) return []
  const says = `shorter than ${SHORTEST} characters, and not covered where it is told: ${short.map(([at]) => at).join(', ')}`
  return [{ check: 'secrets', verdict: 'warning', says, remedy: 'give longer ones' }]
}

/** Of a header what follows its scheme. */
const calledBy = (server: McpServer): readonly (readonly [string, string])[] =>
  calledSecrets(server).map(([at, value]) => [at, at.startsWith('headers.') ? value.replace(/^\S+\s+/, '') : value])
