import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Blocker,
  type Database,
  endStaleKeyHolders,
  errorCode,
  LOCK_NOT_AVAILABLE,
  lockKeyExclusive,
  lockRewindLock,
  type Tx,
} from '@lockstep/store'

export interface AttemptOptions {
  /** Told of the writers that are waited for. */
  readonly onWait?: (blockers: readonly Blocker[]) => void
  readonly signal?: AbortSignal
}

/**
 * One try to get the key. While it is queued for, writers that come later queue behind; a short try lets them through
 * in between, so that one slow writer does not hold up every chain.
 */
const KEY_TRY_MS = 500

/**
 * Runs `work` in a transaction that holds the write key exclusively: no write is in flight, and none begins before it
 * has committed. Requests, cancel, pause and resume all begin so.
 */
export async function withKey<T>(
  db: Database,
  work: (tx: Tx) => Promise<T>,
  options: AttemptOptions,
): Promise<T> {
  for (;;) {
    options.signal?.throwIfAborted()
    try {
      return await db.transaction(
        async (tx) => {
          await lockKeyExclusive(tx)
          return work(tx)
        },
        { lockTimeoutMs: KEY_TRY_MS },
      )
    } catch (error) {
      if (errorCode(error) !== LOCK_NOT_AVAILABLE) throw error
    }
    await makeWay(db, options)
  }
}

/** Finds out what the last try has waited for, ends it where it is stale, and leaves others a moment. */
async function makeWay(db: Database, options: AttemptOptions): Promise<void> {
  const holders = await endStaleKeyHolders(db)
  // Not the key: a release holds the lock's row. Waiting for it without the key has its session watched, and ended
  // where its process is gone.
  if (holders.length === 0) await db.transaction(lockRewindLock)
  else options.onWait?.(holders)
  await sleep(Math.random() * 50)
}
