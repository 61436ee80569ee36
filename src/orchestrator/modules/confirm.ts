import { isoNow } from '../../protocol/clock.ts'
import { InvalidInput } from '../../protocol/errors.ts'
import type { Confirm, DecisionStatus } from '../../protocol/types.ts'
import { takeApart } from '../../psg/document.ts'
import { decide, move } from '../../psg/moves.ts'
import { altering, making } from './intents.ts'
import { graphOf, type Module, onlyFields, textOf } from './module.ts'

const make = making('confirm', ({ clock }) => ({
  status: 'pending',
  requested_by_role: 'runtime',
  requested_at: isoNow(clock),
  decisions: [],
}))

/** Questions to people, and their answers. Those about a plan or an action move the plan too: they are the runtime's, `propose` and `decide`. */
export const confirmModule: Module = {
  make,
  intents: {
    async request(input, ground) {
      const confirm = make(input, ground) as unknown as Confirm
      refuseIfPlans(confirm)
      const graph = await graphOf(confirm.target_type as 'context', confirm.target_id, ground)
      const { confirm_id: id, target_type, target_id } = confirm
      const reason = `somebody must agree to ${target_type} ${target_id}`
      return { graph, changes: takeApart('confirm', confirm), reason, about: { kind: 'confirm', id } }
    },
    async decide(input, ground) {
      onlyFields(input, ['confirm_id', 'status', 'decided_by_role', 'reason'])
      const id = textOf(input, 'confirm_id')
      const decided_by_role = textOf(input, 'decided_by_role')
      const status = textOf(input, 'status') as DecisionStatus
      const graph = await graphOf('confirm', id, ground)
      refuseIfPlans(graph.get('confirm', id)!.data)
      const said = { status, decided_by_role, ...(typeof input.reason === 'string' && { reason: input.reason }) }
      const changes = () => decide(graph, id, said)
      return { graph, changes, reason: `${decided_by_role} decided: ${status}`, about: { kind: 'confirm', id } }
    },
    withdraw: altering('confirm', [], (id, _input, graph) => {
      refuseIfPlans(graph.get('confirm', id)!.data)
      return { changes: [move('confirm', id, 'cancelled')], reason: `confirm ${id} is withdrawn` }
    }),
  },
}

function refuseIfPlans({ target_type }: Confirm): void {
  if (target_type === 'plan' || target_type === 'other')
    throw new InvalidInput('module input', [
      {
        path: 'target_type',
        rule: 'module.area',
        message: 'is decided through the runtime: propose, decide',
        found: target_type,
      },
    ])
}
