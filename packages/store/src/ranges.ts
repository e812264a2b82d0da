import type { ChainKey, Height } from '@lockstep/domain'
import type { Tx } from './database.js'

/*
 * `backfill_ranges` is a plan that an operator can read: one `done` row that grows, and one `pending` row for what is
 * still to come. The checkpoint alone says what is committed.
 */

export interface RangeDone {
  readonly filter: string
  readonly from: Height
  readonly to: Height
  /** The last height of the plan: what is finalized now. */
  readonly planTo: Height
}

/** Marks `from..to` as done, in the transaction that stores it. */
export async function finishRange(tx: Tx, chain: ChainKey, range: RangeDone): Promise<void> {
  const { filter, from, to, planTo } = range
  await tx.query(`delete from backfill_ranges where chain = $1 and filter = $2 and status <> 'done'`, [
    chain,
    filter,
  ])
  const grown = await tx.query(
    `update backfill_ranges set to_height = $4 where chain = $1 and filter = $2 and status = 'done' and to_height = $3 - 1`,
    [chain, filter, from, to],
  )
  if (grown.rowCount === 0) await insertRange(tx, chain, filter, from, to, 'done')
  if (planTo > to) await insertRange(tx, chain, filter, (to + 1) as Height, planTo, 'pending')
}

async function insertRange(
  tx: Tx,
  chain: ChainKey,
  filter: string,
  from: Height,
  to: Height,
  status: string,
): Promise<void> {
  await tx.query(
    `insert into backfill_ranges (chain, filter, from_height, to_height, status) values ($1, $2, $3, $4, $5)
     on conflict (chain, filter, from_height) do update set to_height = excluded.to_height, status = excluded.status, attempts = 0`,
    [chain, filter, from, to, status],
  )
}

/** Counts a failed try of the range that comes next. */
export async function countAttempt(tx: Tx, chain: ChainKey, filter: string, from: Height): Promise<void> {
  await tx.query(
    `update backfill_ranges set attempts = attempts + 1 where chain = $1 and filter = $2 and from_height = $3 and status <> 'done'`,
    [chain, filter, from],
  )
}

/** The backward half: nothing above `cut` (null: nothing at all) counts as done or planned any more. */
export async function shortenRanges(tx: Tx, chain: ChainKey, cut: Height | null): Promise<void> {
  const values = [chain, cut ?? -1]
  await tx.query('delete from backfill_ranges where chain = $1 and from_height > $2', values)
  await tx.query('update backfill_ranges set to_height = $2 where chain = $1 and to_height > $2', values)
}
