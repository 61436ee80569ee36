import type { ComposedRuntime } from '../compose.ts'
import { snapshotsOf } from '../psg/snapshot.ts'
import { by, flagOf, type Route, TEXT, textOf } from './route.ts'

/** Names for revisions of a context, and the way back to them. */
export function snapshotRoutes({ project, get }: ComposedRuntime): readonly Route[] {
  const current = async (id: string) => {
    const graph = await project.context(id)
    await graph.refresh()
    return graph
  }
  return [
    {
      method: 'GET',
      path: '/psg/contexts/:id/snapshots',
      says: 'The snapshots of a context, oldest first.',
      role: 'read',
      handle: async ({ params: { id } }) => snapshotsOf(await current(id)).map(({ data }) => data),
    },
    {
      method: 'POST',
      path: '/psg/contexts/:id/snapshots',
      says: 'Names the context as it is now.',
      role: 'run',
      body: { type: 'object', required: ['name'], properties: { name: TEXT }, additionalProperties: false },
      status: 201,
      async handle({ params: { id }, body }) {
        const graph = await current(id)
        const snapshot = await graph.snapshot(textOf(body, 'name'), by('posted'))
        return snapshot.data
      },
    },
    {
      method: 'POST',
      path: '/psg/contexts/:id/restore',
      says: 'Goes back to a revision or a snapshot by a further commit; what somebody else changed since is left and listed.',
      role: 'admin',
      body: {
        type: 'object',
        required: ['to'],
        properties: { to: { type: ['string', 'integer'] }, of: TEXT, dry_run: { type: 'boolean' } },
        additionalProperties: false,
      },
      async handle({ params: { id }, body }) {
        const graph = await current(id)
        return graph.restore({
          ...by('restored'),
          to: typeof body.to === 'number' ? body.to : textOf(body, 'to'),
          dryRun: flagOf(body, 'dry_run'),
          // Of a run that there is not, nothing would be found to take back, and that told as success.
          ...(body.of !== undefined && { of: (await get(textOf(body, 'of'))).run_id }),
        })
      },
    },
  ]
}
