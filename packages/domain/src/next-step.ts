import type { Height } from './scalars.js'

/** What a worker does next, decided from what is known; nothing else in the worker decides about heights. */
export type NextStep =
  /** Finalized heights, many in one transaction. */
  | { readonly do: 'range'; readonly from: Height; readonly to: Height }
  /** One block, its parent checked against the checkpoint. */
  | { readonly do: 'block'; readonly height: Height }
  | { readonly do: 'wait'; readonly for: Height }
  /** The chain's `endHeight` is stored. */
  | { readonly do: 'finish' }

export interface StepInput {
  readonly checkpoint: Height | null
  readonly startHeight: Height
  readonly endHeight: Height | null
  readonly head: Height
  readonly finalized: Height | null
  readonly rangeWidthMax: number
}

/**
 * Below this many finalized heights ahead, blocks are taken one by one: a range is not worth its end header, and a
 * chain at its head (Cosmos: every block is final at once) is followed block by block.
 */
export const RANGE_HEIGHTS_MIN = 8

export function nextStep(input: StepInput): NextStep {
  const next = nextHeight(input.checkpoint, input.startHeight)
  if (input.endHeight !== null && next > input.endHeight) return { do: 'finish' }
  if (next > input.head) return { do: 'wait', for: next }
  const finalized = Math.min(input.finalized ?? -1, input.head, input.endHeight ?? Number.MAX_SAFE_INTEGER)
  if (finalized - next + 1 < RANGE_HEIGHTS_MIN) return { do: 'block', height: next }
  return { do: 'range', from: next, to: Math.min(next + input.rangeWidthMax - 1, finalized) as Height }
}

/** The first height that is not stored. */
export const nextHeight = (checkpoint: Height | null, startHeight: Height): Height =>
  (checkpoint === null ? startHeight : checkpoint + 1) as Height
