import type { ChainStatus } from '@lockstep/store'

/** What a chain has to index again after a rewind, and how long that takes. */
export interface Refetch {
  /** From the cut to the chain's head (or `endHeight`) as its worker last saw it. */
  readonly blocks: number
  /** As measured in its last backfill; null: never. */
  readonly blocksPerSecond: number | null
  /** Null: nothing was measured. */
  readonly seconds: number | null
}

/**
 * Blocks from the cut to the head go through the node again, also those that the chain had not reached yet: until then
 * it is not back where an operator wants it.
 *
 * @param cut null: before the chain's start
 */
export function estimateRefetch(
  status: Pick<
    ChainStatus,
    'headHeight' | 'endHeight' | 'checkpointHeight' | 'startHeight' | 'backfillBlocksPerSecond'
  >,
  cut: number | null,
): Refetch {
  const head = Math.max(status.headHeight ?? 0, status.checkpointHeight ?? 0)
  const blocks = Math.max(0, (status.endHeight ?? head) - (cut ?? status.startHeight - 1))
  const rate = status.backfillBlocksPerSecond
  if (blocks === 0) return { blocks, blocksPerSecond: rate, seconds: 0 }
  return { blocks, blocksPerSecond: rate, seconds: rate ? blocks / rate : null }
}

/**
 * Chains go back at the same time, so the one with the most rows decides.
 *
 * @param rowsPerSecond as measured in earlier rewinds; null: never
 */
export function estimateRemoval(
  chains: readonly { readonly blocks: number; readonly events: number }[],
  rowsPerSecond: number | null,
): number | null {
  const most = Math.max(0, ...chains.map(({ blocks, events }) => blocks + events))
  return rowsPerSecond === null ? null : most / rowsPerSecond
}

/** Chains index again at the same time, so the slowest decides; null where one was never measured. */
export function estimateIndexingAgain(refetches: readonly Refetch[]): number | null {
  const known = refetches.flatMap(({ seconds }) => seconds ?? [])
  return known.length < refetches.length ? null : Math.max(0, ...known)
}
