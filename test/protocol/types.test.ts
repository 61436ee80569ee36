import { expectTypeOf, it } from 'vitest'
import type { Json } from '../../src/protocol/json.ts'
import type { Kind, PipelineStageEvent, Plan, ProtocolTypes, StageStatus } from '../../src/protocol/types.ts'

// Checked by the compiler: a store takes Json, and nobody should have to cast a protocol object on the way there.
it('makes every protocol type a JSON value', () => {
  expectTypeOf<ProtocolTypes[Kind]>().toExtend<Json>()
})

it('keeps what an open event is known to have', () => {
  expectTypeOf<PipelineStageEvent['stage_status']>().toEqualTypeOf<StageStatus>()
  expectTypeOf<PipelineStageEvent['anything_else']>().toEqualTypeOf<Json>()
  expectTypeOf<Plan['steps'][number]['dependencies']>().toEqualTypeOf<readonly string[] | undefined>()
})
