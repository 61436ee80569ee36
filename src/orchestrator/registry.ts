import { InvalidInput } from '../protocol/errors.ts'
import { members as membersField, method, needed, refuseUnlessFit } from '../protocol/fields.ts'

/** Members by name; they come and go while the runtime lives. */
export interface Registry<Member> {
  /** Throws InvalidInput for what is no member or a name that is taken. */
  load(name: string, member: Member): void
  /** True if there was one. What is under way goes on. */
  unload(name: string): boolean
  get(name: string): Member | undefined
  readonly names: readonly string[]
}

/** `wrong` says what is wrong with a would-be member, if anything is. */
export function registry<Member>(
  wrong: (member: unknown) => string | undefined,
  members: { readonly [name: string]: Member | undefined } = {},
): Registry<Member> {
  refuseUnlessFit('registry', { wrong, members }, { wrong: needed(method), members: membersField })
  const known = new Map<string, Member>()
  const loaded: Registry<Member> = {
    load(name, member) {
      const problem =
        typeof name !== 'string' || name === ''
          ? 'must have a name'
          : (wrong(member) ?? (known.has(name) ? 'is loaded already; unload it first' : undefined))
      if (problem !== undefined)
        throw new InvalidInput('module', [{ path: String(name), rule: 'module', message: problem }])
      known.set(name, member)
    },
    unload: (name) => known.delete(name),
    get: (name) => known.get(name),
    get names() {
      return [...known.keys()]
    },
  }
  for (const [name, member] of Object.entries(members)) if (member !== undefined) loaded.load(name, member)
  return loaded
}

/** Any object that answers like one. */
export const isRegistry = <Member>(
  value: Registry<Member> | { readonly [name: string]: unknown },
): value is Registry<Member> => typeof value.get === 'function' && typeof value.load === 'function'
