import type { ChainKey, TimeUs } from '@lockstep/domain'
import { type CarryOutOptions, carryOutFreeChains } from '@lockstep/rewind'
import {
  type Database,
  type Listener,
  type RewindChainRecord,
  readRewind,
  readRewindChains,
  readRewindState,
} from '@lockstep/store'

/** A running rewind as it is now. */
export interface RewindProgress {
  readonly rewindId: string
  readonly timestamp: TimeUs
  readonly done: readonly RewindChainRecord[]
  readonly waitingFor: readonly ChainKey[]
  readonly finished: boolean
}

export interface FollowOptions {
  readonly listener: Listener
  readonly pollMs: number
  /** How the rewind of a chain without a worker is carried out by who follows. */
  readonly carryOut: CarryOutOptions
  readonly onProgress: (progress: RewindProgress) => void
  readonly signal?: AbortSignal
}

/**
 * Follows a rewind to its end, and carries out what nobody works for: an operator's command is enough to finish a
 * rewind, also where nothing else runs.
 */
export async function followRewind(
  db: Database,
  rewindId: string,
  options: FollowOptions,
): Promise<RewindProgress> {
  for (;;) {
    options.signal?.throwIfAborted()
    const heard = options.listener.heard
    const progress = await readProgress(db, rewindId)
    options.onProgress(progress)
    if (progress.finished) return progress
    const carriedOut = await carryOutFreeChains(db, options.carryOut)
    if (carriedOut.length === 0) await options.listener.wait(heard, options.pollMs, options.signal)
  }
}

async function readProgress(db: Database, rewindId: string): Promise<RewindProgress> {
  return db.transaction(async (tx) => {
    const rewind = await readRewind(tx, rewindId)
    const state = await readRewindState(tx)
    const waitingFor = state.waitingFor.filter((row) => row.rewindId === rewindId).map((row) => row.chain)
    const waiting = new Set(waitingFor)
    const done = (await readRewindChains(tx, rewindId)).filter((record) => !waiting.has(record.chain))
    return {
      rewindId,
      timestamp: rewind?.timestamp ?? (0n as TimeUs),
      done,
      waitingFor,
      finished: rewind === null || rewind.finishedAt !== null,
    }
  })
}
