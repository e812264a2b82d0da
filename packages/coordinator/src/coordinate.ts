import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { LockstepError } from '@lockstep/domain'
import { type CarryOutOptions, carryOutFreeChains } from '@lockstep/rewind'
import { acquireLease, COORDINATOR_LEASE, type Database, LeaseKeeper, type Listener } from '@lockstep/store'
import type { Logger } from '@lockstep/telemetry'

export interface CoordinateOptions {
  readonly db: Database
  readonly listener: Listener
  readonly logger: Logger
  readonly leaseMs: number
  readonly pollMs: number
  readonly carryOut: CarryOutOptions
}

/** How long after a failure, or while another process coordinates, it is tried again. */
const TRY_AGAIN_MS = 2000

/**
 * The coordinator's standing duty: carry out the rewind of every chain that has no worker. One process at a time does
 * it, by lease; the others stand by.
 */
export async function coordinate(options: CoordinateOptions, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    try {
      await coordinateOnce(options, stop)
    } catch (error) {
      if (stop.aborted) return
      if (!(error instanceof LockstepError)) throw error
      options.logger.warn({ err: error }, 'coordination failed and is tried again')
    }
    await sleep(TRY_AGAIN_MS, undefined, { signal: stop }).catch(() => {})
  }
}

async function coordinateOnce(options: CoordinateOptions, stop: AbortSignal): Promise<void> {
  const { db, listener, leaseMs } = options
  const askedAt = performance.now()
  const lease = await acquireLease(db, COORDINATOR_LEASE, leaseMs)
  if (!('token' in lease)) return
  const keeper = new LeaseKeeper(db, lease, leaseMs, askedAt)
  options.logger.debug('this process coordinates')
  try {
    const signal = AbortSignal.any([stop, keeper.lost])
    while (!signal.aborted) {
      const heard = listener.heard
      const carriedOut = await carryOutFreeChains(db, { ...options.carryOut, signal })
      if (carriedOut.length === 0) await listener.wait(heard, options.pollMs, signal)
    }
  } finally {
    await keeper.close()
  }
}
