import { performance } from 'node:perf_hooks'
import { type BlockRef, type Height, type SourceBlock, height as toHeight } from '@lockstep/domain'
import { closeRollback, openRollback } from './audit.js'
import { type ChainWriter, type Checkpoint, checkpointOf, setCheckpoint } from './checkpoint.js'
import type { Database } from './database.js'
import {
  insertBlocks,
  insertEvents,
  insertHeaders,
  markFallingTimes,
  ObservationConflict,
  pruneHeaders,
  type Removed,
  recordConflict,
  removeAbove,
} from './facts.js'
import { keepOrphans } from './orphans.js'
import { finishRange, type RangeDone, shortenRanges } from './ranges.js'
import { type ChildRow, insertChildren } from './registry.js'
import { notify, raiseEpoch } from './rewind-rows.js'
import { insertTransactions } from './transactions.js'
import { lockKeyShared, refuseDuringRewind } from './write-key.js'

/** What one write stores: everything between the checkpoint and `last`. */
export interface BlockBatch {
  /** Blocks that become facts, ascending. */
  readonly facts: readonly SourceBlock[]
  /** Blocks kept for linking, ascending; none of them is among the facts. */
  readonly headers: readonly BlockRef[]
  /** Contracts that the blocks' events tell of. */
  readonly children: readonly ChildRow[]
  /** The next checkpoint. */
  readonly last: BlockRef
  readonly finalized: Height | null
  /** Set for a backfill. */
  readonly range: RangeDone | null
}

/**
 * Stores a batch and moves the checkpoint, or does nothing. Forward and backward (`rollBack`) share this file: what
 * one does, the other undoes.
 *
 * @returns the writer with its new checkpoint
 * @throws WriteRefusedError, LeaseLostError, CheckpointMovedError, ConflictingObservationError
 */
export async function writeBatch(db: Database, writer: ChainWriter, batch: BlockBatch): Promise<ChainWriter> {
  const { chain } = writer
  const checkpoint = checkpointOf(batch.last)
  const refs = [...batch.facts.map((block) => block.ref), ...batch.headers].sort(
    (a, b) => a.height - b.height,
  )
  try {
    await db.transaction(async (tx) => {
      await lockKeyShared(tx)
      await refuseDuringRewind(tx)
      await setCheckpoint(tx, writer, checkpoint) // proves lease, parent and order
      await markFallingTimes(tx, chain, refs)
      await insertBlocks(
        tx,
        chain,
        batch.facts.map((block) => block.ref),
      )
      await insertHeaders(tx, chain, batch.headers)
      await insertEvents(tx, chain, batch.facts)
      await insertTransactions(tx, chain, batch.facts)
      await insertChildren(tx, chain, batch.children)
      if (batch.range) await finishRange(tx, chain, batch.range)
      await pruneHeaders(tx, chain, batch.finalized, batch.last.height)
    })
  } catch (error) {
    if (error instanceof ObservationConflict) await db.transaction((tx) => recordConflict(tx, error))
    throw error
  }
  return { ...writer, checkpoint }
}

/**
 * Takes the chain back to `to` (null: before its start) after a fork. The epoch rises with it, so that a reader can
 * tell that two answers do not belong together.
 */
export async function rollBack(
  db: Database,
  writer: ChainWriter & { readonly checkpoint: Checkpoint },
  to: BlockRef | null,
): Promise<{ writer: ChainWriter; removed: Removed }> {
  const { chain } = writer
  const checkpoint = checkpointOf(to)
  const removed = await db.transaction(async (tx) => {
    const startedAt = performance.now()
    await lockKeyShared(tx)
    await refuseDuringRewind(tx)
    await setCheckpoint(tx, writer, checkpoint)
    const forkPoint = to?.height ?? null
    const rollbackId = await openRollback(tx, chain, writer.checkpoint.height, forkPoint)
    await keepOrphans(tx, chain, toHeight((forkPoint ?? -1) + 1), { rollbackId })
    const removed = await removeAbove(tx, chain, forkPoint)
    await shortenRanges(tx, chain, forkPoint)
    await closeRollback(tx, rollbackId, removed, (performance.now() - startedAt) / 1000)
    await notify(tx, 'release')
    await raiseEpoch(tx)
    return removed
  })
  return { writer: { ...writer, checkpoint }, removed }
}

/**
 * A checkpoint that a rewind took from a node, and that is not the chain's any more, gives way to the last stored block
 * below it. No fact goes: none is stored between the two.
 */
export async function stepDownTo(
  db: Database,
  writer: ChainWriter,
  stored: BlockRef | null,
): Promise<ChainWriter> {
  const checkpoint = checkpointOf(stored)
  await db.transaction(async (tx) => {
    await lockKeyShared(tx)
    await refuseDuringRewind(tx)
    await setCheckpoint(tx, writer, checkpoint)
    await shortenRanges(tx, writer.chain, stored?.height ?? null)
  })
  return { ...writer, checkpoint }
}
