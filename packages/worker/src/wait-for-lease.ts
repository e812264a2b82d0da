import { performance } from 'node:perf_hooks'
import { DatabaseUnavailableError } from '@lockstep/domain'
import { acquireChainLease, LeaseKeeper } from '@lockstep/store'
import { Backoff } from './backoff.js'
import type { WorkerOptions } from './worker-options.js'

/** While another process holds the chain: how often it is asked again at least. */
const ASK_AGAIN_MS_MAX = 2000
const LOG_MS = 10_000

/** Takes the chain's lease, waiting for its holder's end where it is taken. Null: asked to stop meanwhile. */
export async function waitForLease(worker: WorkerOptions, stop: AbortSignal): Promise<LeaseKeeper | null> {
  const { db, lease, listener, logger, options } = worker
  const backoff = new Backoff()
  let nextLine = 0
  while (!stop.aborted) {
    const askedAt = performance.now()
    try {
      const answer = await acquireChainLease(db, options.chain, lease.timeMs)
      if ('token' in answer) {
        logger.info({ holder: answer.holder, token: answer.token }, 'lease was taken')
        return new LeaseKeeper(db, answer, lease.timeMs, askedAt)
      }
      if (askedAt >= nextLine) {
        nextLine = askedAt + LOG_MS
        logger.info({ ...answer }, 'chain is held by another worker; waiting for its lease to end')
      }
      const waitMs = Math.min(Math.max(answer.freeInSeconds * 1000, 50), ASK_AGAIN_MS_MAX)
      await listener.wait(listener.heard, waitMs, stop)
    } catch (error) {
      if (!(error instanceof DatabaseUnavailableError)) throw error
      const waitMs = backoff.next()
      if (backoff.worthALine)
        logger.warn({ err: error, waitMs }, 'lease could not be asked for and is asked again')
      await listener.wait(listener.heard, waitMs, stop)
    }
  }
  return null
}
