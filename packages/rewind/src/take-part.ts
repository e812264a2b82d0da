import { performance } from 'node:perf_hooks'
import { formatTimeShort } from '@lockstep/domain'
import {
  anyRewindRowLeft,
  type ChainRewind,
  type ChainWriter,
  type Database,
  deleteChainRewind,
  deleteRewindLock,
  finishRewind,
  keepOrphans,
  lockRewindLock,
  notify,
  type Removed,
  recordChainRewind,
  removeAbove,
  setCheckpoint,
  shortenRanges,
  type Tx,
} from '@lockstep/store'
import type { Logger } from '@lockstep/telemetry'
import { type Cut, type CutOptions, findCut } from './find-cut.js'
import { noSteps, type StepHook } from './steps.js'

export interface TakePartOptions extends CutOptions {
  /** Already carries the chain. */
  readonly logger: Logger
  readonly onStep?: StepHook
}

export interface TakenPart {
  /** `superseded`: the rewind was changed meanwhile; nothing was done, begin again from what is there now. */
  readonly outcome: 'done' | 'superseded'
  /** The writer with the checkpoint that is true now. */
  readonly writer: ChainWriter
  /** This chain was the last: the rewind is over. */
  readonly released: boolean
}

/** The rewind was changed while this chain was on its way: undo, and begin again. */
class Superseded extends Error {}

/**
 * One chain's part of a rewind: find the cut, remove what lies above it, and, as the last one, release everybody.
 * Whoever holds the chain's lease may do it, with a node or without. Taking back is deleting only: no user code runs.
 *
 * @param row the chain's own row, as read before: the compare-and-set at the end is on this
 * @throws LeaseLostError, CheckpointMovedError
 */
export async function takePart(
  db: Database,
  writer: ChainWriter,
  row: ChainRewind,
  options: TakePartOptions,
): Promise<TakenPart> {
  const { onStep = noSteps } = options
  const logger = options.logger.child({ rewindId: row.rewindId })
  logger.info({ to: formatTimeShort(row.timestamp), from: row.from }, 'chain rewind began')
  await onStep('chain.noticed')
  const cut = await findCut(db, row, options)
  logger.info(
    { cut: cut.checkpoint?.height ?? null, by: cut.by, headers: cut.reads, note: cut.note },
    'cut was found',
  )
  await onStep('chain.cut_found')
  try {
    const startedAt = performance.now()
    const { removed, released } = await db.transaction((tx) => goBack(tx, writer, row, cut, onStep))
    await onStep('chain.committed')
    logger.info(
      {
        cut: cut.checkpoint?.height ?? null,
        blocks: removed.blocks,
        events: removed.events,
        ms: Math.round(performance.now() - startedAt),
      },
      'chain was rewound',
    )
    if (released) logger.info('rewind was released: all chains are back')
    return { outcome: 'done', writer: { ...writer, checkpoint: cut.checkpoint }, released }
  } catch (error) {
    if (!(error instanceof Superseded)) throw error
    logger.info('rewind was changed meanwhile; the chain begins again')
    return { outcome: 'superseded', writer, released: false }
  }
}

async function goBack(
  tx: Tx,
  writer: ChainWriter,
  row: ChainRewind,
  cut: Cut,
  onStep: StepHook,
): Promise<{ removed: Removed; released: boolean }> {
  const startedAt = performance.now()
  await setCheckpoint(tx, writer, cut.checkpoint) // also where nothing goes: it proves the lease
  await onStep('chain.checkpoint_set')
  const removed = await removeRows(tx, row, cut)
  await recordChainRewind(tx, row.rewindId, {
    chain: row.chain,
    checkpointBefore: writer.checkpoint?.height ?? null,
    from: row.from,
    cut: cut.checkpoint?.height ?? null,
    removed,
    seconds: (performance.now() - startedAt) / 1000,
    carriedOutBy: writer.lease.holder,
  })
  await onStep('chain.removed')
  const released = await release(tx, row, onStep)
  return { removed, released }
}

async function removeRows(tx: Tx, row: ChainRewind, cut: Cut): Promise<Removed> {
  if (row.from === null) return { blocks: 0, events: 0 }
  const height = cut.checkpoint?.height ?? null
  if (row.forkFrom !== null) await keepOrphans(tx, row.chain, row.forkFrom, { rewindId: row.rewindId })
  const removed = await removeAbove(tx, row.chain, height)
  await shortenRanges(tx, row.chain, height)
  return removed
}

/**
 * Deletes the chain's own row and, where it was the last, the lock. Locking `rewind_lock` first is what makes two last
 * chains see each other: the second waits here until the first has committed, and the look for remaining rows is a
 * later statement, so it sees that the first one's row is gone. Without the lock both would see the other's row, and
 * nobody would release.
 *
 * @returns whether everybody is released
 */
async function release(tx: Tx, row: ChainRewind, onStep: StepHook): Promise<boolean> {
  await lockRewindLock(tx)
  await onStep('chain.lock_row_locked')
  if (!(await deleteChainRewind(tx, row))) throw new Superseded()
  await onStep('chain.own_row_deleted')
  if (await anyRewindRowLeft(tx)) return false
  await deleteRewindLock(tx)
  await finishRewind(tx, row.rewindId)
  await notify(tx, 'release')
  await onStep('chain.released')
  return true
}
