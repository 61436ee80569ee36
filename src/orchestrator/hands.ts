import type { BudgetState, Hands } from '../ael/layer.ts'
import type { Ledger } from '../ael/ledger.ts'
import type { Backend } from '../vsl/backend.ts'
import type { Children } from './children.ts'
import { answerOn } from './gate.ts'
import type { LiveRun } from './live.ts'
import type { Patiently } from './patiently.ts'
import { execution } from './steps.ts'

/** What the action layer needs of graph, store and people: whose run it is, whether somebody agreed, and what may be spent. */
export function handsOf(
  store: Backend,
  patiently: Patiently,
  live: ReadonlyMap<string, LiveRun>,
  { child }: Pick<Children, 'child'>,
): Required<Omit<Hands, 'admit'>> {
  const charged = new Map<string, Ledger>()
  const runOf = (run: { readonly plan_id: string } | undefined) => (run ? live.get(run.plan_id) : undefined)
  return {
    child,
    blobs: {
      put: (bytes, signal = NEVER) => patiently(() => store.putBlob(bytes), signal),
      get: (digest, signal = NEVER) => patiently(() => store.getBlob(digest), signal),
    },
    gate({ run, digest, action_id }) {
      const asking = runOf(run)
      return asking && run ? answerOn(asking, run.step_id, digest, action_id) : { verdict: 'pending' }
    },
    budget: {
      reserve(request) {
        const run = runOf(request.run)
        if (!run) return UNLIMITED
        const answer = run.undo ? UNLIMITED : run.ledger.reserve(request) // going back is counted, and never denied
        if (answer.state !== 'exceeded') charged.set(request.execution_id, run.ledger) // one that was denied ends without a word
        return answer
      },
      settle(execution_id, spent) {
        const ledger = charged.get(execution_id)
        charged.delete(execution_id)
        return ledger?.settle(execution_id, spent) ?? UNLIMITED
      },
      release(execution_id) {
        charged.get(execution_id)?.release(execution_id)
        charged.delete(execution_id)
      },
    },
    emit(event) {
      const plan = event.payload.plan_id
      const run = typeof plan === 'string' ? live.get(plan) : undefined
      run?.told.push(execution(run, event))
    },
  }
}
const NEVER = new AbortController().signal
const UNLIMITED: BudgetState = { state: 'ok' }
