import { formatTimeShort, RequestRefusedError } from '@lockstep/domain'
import { type Database, deletePause, lockPause, notify, type Pause, putPause } from '@lockstep/store'
import { type AttemptOptions, withKey } from './key-attempts.js'

/**
 * Holds everything: from its commit on nobody fetches or writes until `resume`. Rewinds may run under it.
 *
 * @throws RequestRefusedError where a pause is there already
 */
export async function pause(
  db: Database,
  by: { readonly who: string; readonly reason: string | null },
  options: AttemptOptions = {},
): Promise<void> {
  await withKey(
    db,
    async (tx) => {
      const before = await lockPause(tx)
      if (before !== null) throw alreadyPaused(before)
      await putPause(tx, { ...by, rewindId: null })
      await notify(tx, 'pause')
    },
    options,
  )
}

/**
 * Ends a pause; a rewind that runs goes on, and everybody fetches again when it is done.
 *
 * @throws RequestRefusedError where there is none
 */
export async function resume(db: Database, options: AttemptOptions = {}): Promise<Pause> {
  return withKey(
    db,
    async (tx) => {
      const before = await lockPause(tx)
      if (before === null)
        throw new RequestRefusedError('Nothing is paused.', 'See "lockstep status" for what the chains do.')
      await deletePause(tx)
      await notify(tx, 'release')
      return before
    },
    options,
  )
}

const alreadyPaused = (before: Pause): RequestRefusedError =>
  new RequestRefusedError(
    `Everything is paused already, by ${before.who} since ${formatTimeShort(before.since)}.`,
    'Nothing was changed. End it with "lockstep resume".',
  )
