import type { ChainKey, TimeUs } from '@lockstep/domain'
import { type CarryOutOptions, carryOutFreeChains } from '@lockstep/rewind'
import {
  type ChainStatus,
  type Database,
  type Listener,
  type RewindChainRecord,
  readRewind,
  readRewindChains,
  readRewindState,
  readStatus,
} from '@lockstep/store'
import { whyWaiting } from './describe-status.js'

/** A running rewind as it is now. */
export interface RewindProgress {
  readonly rewindId: string
  readonly timestamp: TimeUs
  readonly done: readonly RewindChainRecord[]
  readonly waitingFor: readonly { readonly chain: ChainKey; readonly why: string }[]
  readonly finished: boolean
  /** Somebody took it back. */
  readonly cancelled: boolean
  /** Nobody goes on after the release before an operator resumes. */
  readonly paused: boolean
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
    const waiting = state.waitingFor.filter((row) => row.rewindId === rewindId).map((row) => row.chain)
    const status = new Map((await readStatus(tx)).map((each) => [each.chain, each]))
    const done = (await readRewindChains(tx, rewindId)).filter((record) => !waiting.includes(record.chain))
    return {
      rewindId,
      timestamp: rewind?.timestamp ?? (0n as TimeUs),
      done,
      waitingFor: waiting.map((chain) => ({ chain, why: whyOf(status.get(chain)) })),
      finished: rewind === null || rewind.finishedAt !== null || rewind.cancelledAt !== null,
      cancelled: rewind?.cancelledAt != null,
      paused: state.pause !== null,
    }
  })
}

const ALONE = 'no worker; carried out from here'
const whyOf = (status: ChainStatus | undefined): string =>
  status === undefined ? ALONE : whyWaiting(status, ALONE)
