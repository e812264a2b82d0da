import { performance } from 'node:perf_hooks'
import { type ChainKey, type ChainSource, LeaseLostError } from '@lockstep/domain'
import {
  acquireChainLease,
  type ChainRewind,
  type Database,
  LeaseKeeper,
  readChainRewind,
  readCheckpoint,
  readFreeChains,
  readRewindState,
} from '@lockstep/store'
import type { Logger } from '@lockstep/telemetry'
import type { StepHook } from './steps.js'
import { takePart } from './take-part.js'

export interface CarryOutOptions {
  readonly leaseMs: number
  /** Null for a chain whose nodes are not known here: its cut is taken from the database. */
  readonly sourceOf: (chain: ChainKey) => ChainSource | null
  /** How long a node may take to help with one chain's cut. */
  readonly timeoutMs: number
  readonly logger: Logger
  readonly onStep?: StepHook
  readonly signal?: AbortSignal
}

/**
 * Carries out the rewind of every chain that nobody works for now: a dead worker's, a finished one's, one that was
 * taken out of the config. So nobody is waited for in vain.
 *
 * @returns the chains that were rewound here
 */
export async function carryOutFreeChains(db: Database, options: CarryOutOptions): Promise<ChainKey[]> {
  const waiting = await db.transaction(async (tx) => {
    const state = await readRewindState(tx)
    if (state.waitingFor.length === 0) return []
    const free = new Set(await readFreeChains(tx))
    return state.waitingFor.filter((row) => free.has(row.chain))
  })
  const done: ChainKey[] = []
  for (const { chain } of waiting) {
    options.signal?.throwIfAborted()
    if (await carryOut(db, chain, options)) done.push(chain)
  }
  return done
}

async function carryOut(db: Database, chain: ChainKey, options: CarryOutOptions): Promise<boolean> {
  const askedAt = performance.now()
  const lease = await acquireChainLease(db, chain, options.leaseMs)
  if (!('token' in lease)) return false // its worker has come meanwhile
  const keeper = new LeaseKeeper(db, lease, options.leaseMs, askedAt)
  try {
    // Looked at again under the lease: its worker may have done it before it ended.
    const now = await db.transaction(async (tx) => ({
      row: await readChainRewind(tx, chain),
      checkpoint: await readCheckpoint(tx, chain),
    }))
    if (now.row === null) return false
    options.logger.info(
      { chain, rewindId: now.row.rewindId },
      'chain without a worker was taken over for its rewind',
    )
    return await rewindFor(db, { chain, lease, checkpoint: now.checkpoint }, now.row, options)
  } catch (error) {
    // Its worker came back while this process slept: the chain is the worker's again, and the others still wait.
    if (error instanceof LeaseLostError) return false
    throw error
  } finally {
    await keeper.close()
  }
}

async function rewindFor(
  db: Database,
  writer: Parameters<typeof takePart>[1],
  row: ChainRewind,
  options: CarryOutOptions,
): Promise<boolean> {
  const { outcome } = await takePart(db, writer, row, {
    source: options.sourceOf(row.chain),
    timeoutMs: options.timeoutMs,
    logger: options.logger.child({ chain: row.chain }),
    ...(options.onStep && { onStep: options.onStep }),
    ...(options.signal && { signal: options.signal }),
  })
  return outcome === 'done'
}
