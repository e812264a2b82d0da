import type { BlockRef } from './block.js'
import type { Height } from './scalars.js'

/*
 * Where a chain's stored blocks and the node's chain part.
 *
 * Only stored blocks prove anything: heights that are not stored hold no facts. A node that has no block at a height,
 * or does not answer, proves nothing either: it may be behind. So the walk ends in one of four ways, and deletes
 * nothing itself.
 */

export type ForkSearch =
  | { readonly outcome: 'fork_point'; readonly block: BlockRef; readonly reads: number }
  /** All stored blocks were replaced, the chain's first among them. */
  | { readonly outcome: 'before_start'; readonly reads: number }
  /** The walk would pass the greatest depth, or the stored blocks end above the chain's start. */
  | {
      readonly outcome: 'too_deep'
      readonly lowest: BlockRef
      readonly reported: BlockRef
      readonly reads: number
    }
  /** The node has no block at a stored height. */
  | { readonly outcome: 'unsure'; readonly missing: Height; readonly reads: number }

export interface ForkSearchInput {
  /** Stored blocks (`block` and `header`) from the highest one down. */
  readonly stored: AsyncIterable<BlockRef>
  readonly readHeader: (height: Height) => Promise<BlockRef | null>
  readonly startHeight: Height
  /** Heights that may go at most, counted from the highest stored block; exactly as many are allowed. */
  readonly rollbackDepthMax: number
}

export async function findForkPoint(input: ForkSearchInput): Promise<ForkSearch> {
  let highest: Height | null = null
  let reads = 0
  let last: { readonly stored: BlockRef; readonly reported: BlockRef } | null = null
  for await (const stored of input.stored) {
    highest ??= stored.height
    if (highest - stored.height > input.rollbackDepthMax) break
    const reported = await input.readHeader(stored.height)
    reads += 1
    if (reported === null) return { outcome: 'unsure', missing: stored.height, reads }
    if (reported.hash === stored.hash) return { outcome: 'fork_point', block: stored, reads }
    last = { stored, reported }
    if (stored.height === input.startHeight && goesBeforeStart(highest, input))
      return { outcome: 'before_start', reads }
  }
  if (last === null) return { outcome: 'before_start', reads } // nothing is stored, so nothing can be lost
  return { outcome: 'too_deep', lowest: last.stored, reported: last.reported, reads }
}

const goesBeforeStart = (highest: Height, input: ForkSearchInput): boolean =>
  highest - (input.startHeight - 1) <= input.rollbackDepthMax
