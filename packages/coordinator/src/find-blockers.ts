import { type ChainKey, type ChainSource, describeError, type Height, shortHash } from '@lockstep/domain'
import type { Checkpoint } from '@lockstep/store'

/**
 * Why a rewind should be thought over: it would go through, but something would be missing afterwards. Each is a word
 * that `--force` takes.
 */
export const BLOCKER_NAMES = ['no-worker', 'refetch', 'fork'] as const

export type BlockerName = (typeof BLOCKER_NAMES)[number]

export interface PlanBlocker {
  readonly name: BlockerName
  readonly chain: ChainKey
  /** A sentence for a person. */
  readonly because: string
}

export interface BlockerInput {
  readonly chain: ChainKey
  readonly checkpoint: Checkpoint | null
  readonly from: Height | null
  readonly worker: string | null
  /** Why the worker would stop again after the rewind; null: it would go on. */
  readonly stopsAgain: string | null
  /** Null: the chain is not in the config. */
  readonly source: ChainSource | null
  readonly timeoutMs: number
}

/** Looks for what stands against taking this chain back. A chain that loses nothing has no blockers. */
export async function findBlockers(input: BlockerInput): Promise<PlanBlocker[]> {
  if (input.from === null || input.checkpoint === null) return []
  const node = input.source === null ? [] : await askNode(input, input.source, input.from, input.checkpoint)
  return [...withoutWorker(input), ...node]
}

function withoutWorker({ chain, worker, source, stopsAgain }: BlockerInput): PlanBlocker[] {
  if (source === null) {
    return [{ name: 'no-worker', chain, because: 'it is not in the config: what goes is not indexed again' }]
  }
  if (stopsAgain !== null) {
    return [
      {
        name: 'no-worker',
        chain,
        because: `it stays stopped, so what goes is not indexed again: ${stopsAgain}`,
      },
    ]
  }
  if (worker !== null) return []
  return [
    {
      name: 'no-worker',
      chain,
      because: 'no worker runs for it: what goes is not indexed again until one does',
    },
  ]
}

/** Could the node serve again what would go? It is asked for the first block that goes, with its events. */
async function askNode(
  { chain, timeoutMs }: BlockerInput,
  source: ChainSource,
  from: Height,
  checkpoint: Checkpoint,
): Promise<PlanBlocker[]> {
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    const [block, now] = await Promise.all([
      source.block(from, signal),
      source.header(checkpoint.height, signal),
    ])
    if (block === null) return [refetch(chain, `its node has no block ${from}, the first that goes`)]
    if (now !== null && now.hash !== checkpoint.hash) {
      const because = `a fork is not settled: block ${checkpoint.height} is ${shortHash(checkpoint.hash)} here and ${shortHash(now.hash)} at its node`
      return [{ name: 'fork', chain, because }]
    }
    return []
  } catch (error) {
    const reason = signal.aborted
      ? `it took longer than ${timeoutMs} ms`
      : describeError(error).split('\n')[0]
    return [refetch(chain, `its node could not serve block ${from}, the first that goes: ${reason}`)]
  }
}

const refetch = (chain: ChainKey, because: string): PlanBlocker => ({ name: 'refetch', chain, because })
