import type { BlockRef } from './block.js'
import type { Height, TimeUs } from './scalars.js'

/*
 * The search for a chain's cut: the last block with block time <= T, between a stored block below and a height whose
 * time is known to lie after T.
 *
 * A bisection of a million blocks costs 20 headers, each a round trip to a node, while everybody waits. Block times
 * are nearly even, so interpolation hits within a few; but on uneven ones (a halted chain, a genesis with time 0) it
 * can creep along one side for ever. So interpolation is used as long as a bisection of what is left would still fit
 * into the budget of 2 * ceil(log2 n) - 1 headers, and bisection from there on: the budget holds whatever the times are.
 */

export interface CutBracket {
  /** A block with block time <= T; null: the height before the chain's first block, which has no time. */
  readonly low: BlockRef | null
  /** The height of `low`, or start height - 1 (-1 for a chain that starts at 0). */
  readonly lowHeight: number
  /** A height with block time > T; above `lowHeight`. */
  readonly highHeight: number
  readonly highTime: TimeUs
}

export type CutSearch =
  /**
   * `block` null: the cut lies before the chain's first block. `above`: the block just above the cut as the node gave
   * it; null where that is the bracket's upper end.
   */
  | {
      readonly found: true
      readonly block: BlockRef | null
      readonly above: BlockRef | null
      readonly reads: number
    }
  /** The node has no block at a height inside the bracket: it cannot tell. */
  | { readonly found: false; readonly missing: Height; readonly reads: number }

/**
 * @param readHeader a header, or null where the node has none at that height
 * @returns the block just below the first crossing of T inside the bracket; on a chain whose times never fall, that is
 *   the last block with time <= T
 */
export async function searchCut(
  target: TimeUs,
  bracket: CutBracket,
  readHeader: (height: Height) => Promise<BlockRef | null>,
): Promise<CutSearch> {
  let { low, lowHeight, highHeight, highTime } = bracket
  let above: BlockRef | null = null
  const budget = 2 * bisectionSteps(highHeight - lowHeight) - 1
  let reads = 0
  while (highHeight - lowHeight > 1) {
    // Invariant: time(low) <= T < time(high).
    const spare = budget - reads - 1 - bisectionSteps(highHeight - lowHeight)
    const opening = low === null && reads === 0 && spare >= 0
    const probe =
      spare < 0 || (low === null && !opening)
        ? lowHeight + Math.floor((highHeight - lowHeight) / 2)
        : guess(target, low, lowHeight, highHeight, highTime)
    const header = await readHeader(probe as Height)
    reads += 1
    // Without a block below, the first one tells at once whether T lies before all, and gives a side to interpolate
    // from. A node that has pruned it may still have those near the cut.
    if (header === null && opening) continue
    if (header === null) return { found: false, missing: probe as Height, reads }
    if (header.time <= target) {
      low = header
      lowHeight = probe
    } else {
      above = header
      highHeight = probe
      highTime = header.time
    }
  }
  return { found: true, block: low, above, reads }
}

/** Headers that a plain bisection of `n` heights reads at most. */
export const bisectionSteps = (n: number): number => (n <= 1 ? 0 : Math.ceil(Math.log2(n)))

/**
 * Where T would lie if the times between `low` and `high` rose evenly; always strictly between the two. Without a block
 * below, the first height.
 */
function guess(
  target: TimeUs,
  low: BlockRef | null,
  lowHeight: number,
  highHeight: number,
  highTime: TimeUs,
): number {
  if (low === null) return lowHeight + 1
  const part = Number(target - low.time) / Number(highTime - low.time)
  const at = lowHeight + Math.floor(part * (highHeight - lowHeight))
  return Math.min(Math.max(at, lowHeight + 1), highHeight - 1)
}
