import { formatTimeShort, RequestRefusedError } from '@lockstep/domain'
import {
  anyChainMoved,
  cancelRewindRecord,
  type Database,
  deleteAllChainRewinds,
  deletePause,
  deleteRewindLock,
  lockPause,
  lockRewindLock,
  notify,
  type RewindLock,
  raiseEpoch,
} from '@lockstep/store'
import { type AttemptOptions, withKey } from './key-attempts.js'

/**
 * Takes a rewind back while no chain has removed anything or moved its checkpoint; judged from the audit's rows, which
 * are written in the chains' own transactions. A chain that is in the middle of its part finds its row gone, and undoes.
 *
 * @throws RequestRefusedError where no rewind runs, or it is too late
 */
export async function cancelRewind(db: Database, options: AttemptOptions = {}): Promise<RewindLock> {
  return withKey(
    db,
    async (tx) => {
      // Whoever is just finishing a chain holds this row: after the wait its audit row is there to be judged.
      const running = await lockRewindLock(tx)
      if (running === null) throw new RequestRefusedError('No rewind is running.', 'Nothing was changed.')
      if (await anyChainMoved(tx, running.rewindId)) throw tooLate(running)
      await deleteRewindLock(tx)
      await deleteAllChainRewinds(tx)
      if ((await lockPause(tx))?.rewindId === running.rewindId) await deletePause(tx)
      await cancelRewindRecord(tx, running.rewindId)
      await notify(tx, 'release')
      await raiseEpoch(tx)
      return running
    },
    options,
  )
}

const tooLate = (running: RewindLock): RequestRefusedError =>
  new RequestRefusedError(
    `Rewind ${running.rewindId} to ${formatTimeShort(running.timestamp)} cannot be cancelled: a chain has gone back already.`,
    'It goes on to its end; then the chains index again up to their heads. See "lockstep rewind show".',
    { rewindId: running.rewindId },
  )
