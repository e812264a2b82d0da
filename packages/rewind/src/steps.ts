/**
 * The steps of a rewind at which a process may die. Tests stop or kill a process there; each step is a promise kept
 * whatever happens at it.
 */
export const REWIND_STEPS = [
  'request.key_locked',
  'request.recorded',
  'request.committed',
  'chain.noticed',
  'chain.cut_found',
  'chain.checkpoint_set',
  'chain.removed',
  'chain.lock_row_locked',
  'chain.own_row_deleted',
  'chain.released',
  'chain.committed',
] as const

export type RewindStep = (typeof REWIND_STEPS)[number]

/** Called as each step is reached, and waited for. */
export type StepHook = (step: RewindStep) => void | Promise<void>

export const noSteps: StepHook = () => {}
