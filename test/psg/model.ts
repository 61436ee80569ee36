/** What a plan, its steps and dialogs ought to be like: small enough to be right by reading, and ignorant of how the graph works. */
export interface Model {
  readonly plans: Map<string, ModelPlan>
  readonly dialogs: Map<string, ModelDialog>
}
export interface ModelPlan {
  status: string
  title: string
  readonly steps: Map<string, ModelStep>
  /** Was it put up for approval here, so that a Confirm refers to it? */
  asked: boolean
  /** Came in the middle of its life and was not started here. */
  foreign: boolean
}
export interface ModelStep {
  status: string
  description: string
  waitsFor: string[]
}
export interface ModelDialog {
  status: string
  readonly messages: string[]
}

export const emptyModel = (): Model => ({ plans: new Map(), dialogs: new Map() })

/** Each answers whether the graph must accept it, and has then happened. */
export const model = {
  addPlan(m: Model, id: string, title: string, steps: ReadonlyMap<string, ModelStep>): boolean {
    if (steps.size === 0 || goesRound(steps)) return false
    m.plans.set(id, { status: 'draft', title, steps: copied(steps), asked: false, foreign: false })
    return true
  },

  importPlan(m: Model, id: string, title: string, status: string, steps: ReadonlyMap<string, ModelStep>): boolean {
    if (steps.size === 0 || goesRound(steps)) return false
    m.plans.set(id, { status, title, steps: copied(steps), asked: false, foreign: true })
    return true
  },

  addStep(plan: ModelPlan, id: string, step: ModelStep): boolean {
    if (plan.status !== 'draft') return false
    plan.steps.set(id, { ...step, waitsFor: [...step.waitsFor] })
    return true
  },

  removeStep(plan: ModelPlan, id: string): boolean {
    const needed = [...plan.steps.values()].some((step) => step.waitsFor.includes(id))
    const last = plan.steps.size === 1
    if (plan.status !== 'draft' || hasEnded(plan.steps.get(id)!.status) || needed || last) return false
    return plan.steps.delete(id)
  },

  removePlan(m: Model, id: string): boolean {
    const plan = m.plans.get(id)!
    const kept = [...plan.steps.values()].some((step) => hasEnded(step.status))
    if (plan.status !== 'draft' || plan.asked || kept) return false
    return m.plans.delete(id)
  },

  waitFor(plan: ModelPlan, from: string, to: string): boolean {
    const step = plan.steps.get(from)!
    if (plan.status !== 'draft' || hasEnded(step.status) || step.waitsFor.includes(to)) return false
    step.waitsFor.push(to)
    if (!goesRound(plan.steps)) return true
    step.waitsFor.pop()
    return false
  },

  waitNoMore(plan: ModelPlan, from: string, to: string): boolean {
    const step = plan.steps.get(from)!
    if (plan.status !== 'draft' || hasEnded(step.status) || !step.waitsFor.includes(to)) return false
    step.waitsFor = step.waitsFor.filter((id) => id !== to)
    return true
  },

  rename(plan: ModelPlan, title: string): boolean {
    if (plan.status !== 'draft') return false
    plan.title = title
    return true
  },

  describe(plan: ModelPlan, id: string, description: string): boolean {
    const step = plan.steps.get(id)!
    if (plan.status !== 'draft' || hasEnded(step.status)) return false
    step.description = description
    return true
  },

  moveStep(plan: ModelPlan, id: string, to: string): boolean {
    const step = plan.steps.get(id)!
    if (hasEnded(plan.status) || !STEP_MOVES[step.status]?.includes(to)) return false
    const ready = step.waitsFor.every((other) => ['completed', 'skipped'].includes(plan.steps.get(other)!.status))
    const held = step.waitsFor.some((other) => plan.steps.get(other)!.status === 'failed')
    if (to === 'blocked' && !held) return false
    if (to === 'in_progress' && (plan.status !== 'in_progress' || plan.foreign || !ready)) return false
    step.status = to
    return true
  },

  propose(plan: ModelPlan): boolean {
    if (plan.status !== 'draft') return false
    plan.status = 'proposed'
    plan.asked = true
    return true
  },

  decide(plan: ModelPlan, status: string): boolean {
    if (plan.status !== 'proposed') return false
    if (status === 'cancelled') endSteps(plan)
    plan.status = status === 'rejected' ? 'draft' : status
    return true
  },

  start(plan: ModelPlan): boolean {
    if (plan.status !== 'approved' || !plan.asked) return false
    plan.status = 'in_progress'
    plan.foreign = false
    return true
  },

  end(plan: ModelPlan, status: string): boolean {
    const statuses = [...plan.steps.values()].map((step) => step.status)
    const failed = statuses.includes('failed') || statuses.includes('in_progress')
    if (hasEnded(plan.status) || (status !== 'cancelled' && plan.status !== 'in_progress')) return false
    if (status === 'completed' && failed) return false
    endSteps(plan)
    plan.status = status
    return true
  },

  addDialog(m: Model, id: string): boolean {
    m.dialogs.set(id, { status: 'active', messages: [] })
    return true
  },
  say(dialog: ModelDialog, text: string): boolean {
    if (dialog.status !== 'active') return false
    dialog.messages.push(text)
    return true
  },
  moveDialog(dialog: ModelDialog, to: string): boolean {
    if (!DIALOG_MOVES[dialog.status]?.includes(to)) return false
    dialog.status = to
    return true
  },
}

const hasEnded = (status: string): boolean => ['completed', 'failed', 'cancelled', 'skipped'].includes(status)

const STEP_MOVES: { readonly [status: string]: readonly string[] } = {
  pending: ['in_progress', 'blocked', 'skipped'],
  blocked: ['pending', 'skipped'],
  in_progress: ['completed', 'failed', 'skipped'],
}
const DIALOG_MOVES: { readonly [status: string]: readonly string[] } = {
  active: ['paused', 'completed', 'cancelled'],
  paused: ['active', 'cancelled'],
}

function endSteps(plan: ModelPlan): void {
  for (const step of plan.steps.values()) {
    if (step.status === 'in_progress') step.status = 'failed'
    else if (!hasEnded(step.status)) step.status = 'skipped'
  }
}

const copied = (steps: ReadonlyMap<string, ModelStep>): Map<string, ModelStep> =>
  new Map([...steps].map(([id, step]) => [id, { ...step, waitsFor: [...step.waitsFor] }]))

/** Follows every path until it meets itself or ends: hopeless for large plans, and plainly right. */
function goesRound(steps: ReadonlyMap<string, ModelStep>): boolean {
  const follow = (id: string, path: readonly string[]): boolean =>
    path.includes(id) || steps.get(id)!.waitsFor.some((next) => follow(next, [...path, id]))
  return [...steps.keys()].some((id) => follow(id, []))
}
