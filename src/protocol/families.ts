/** The protocol's families of events. */
export const FAMILIES: readonly string[] = [
  'import_process',
  'intent',
  'delta_intent',
  'impact_analysis',
  'compensation_plan',
  'methodology',
  'reasoning_graph',
  'pipeline_stage',
  'graph_update',
  'runtime_execution',
  'cost_budget',
  'external_integration',
]
