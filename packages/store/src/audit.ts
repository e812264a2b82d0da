import { type ChainKey, formatTime, type Height, type TimeUs } from '@lockstep/domain'
import type { Tx } from './database.js'
import type { Removed } from './facts.js'

/*
 * The audit: every step backwards has one entry, written in the transaction that it tells of, and kept for ever.
 */

export interface RewindRecord {
  readonly id: string
  readonly timestamp: TimeUs
  readonly reason: string | null
  readonly who: string
  readonly requestedAt: TimeUs
  readonly deepened: number
  readonly finishedAt: TimeUs | null
}

export interface RewindChainRecord {
  readonly chain: ChainKey
  readonly checkpointBefore: Height | null
  readonly from: Height | null
  readonly cut: Height | null
  readonly removed: Removed
  readonly seconds: number
  readonly carriedOutBy: string
}

export async function insertRewind(
  tx: Tx,
  rewind: {
    readonly id: string
    readonly timestamp: TimeUs
    readonly reason: string | null
    readonly who: string
  },
): Promise<void> {
  await tx.query(
    'insert into rewind (id, timestamp, reason, who, requested_at) values ($1, $2::timestamptz, $3, $4, clock_timestamp())',
    [rewind.id, formatTime(rewind.timestamp), rewind.reason, rewind.who],
  )
}

/** A request with an earlier time joined: the audit tells the time that counts, and both reasons. */
export async function deepenRewind(
  tx: Tx,
  id: string,
  timestamp: TimeUs,
  reason: string | null,
): Promise<void> {
  await tx.query(
    `update rewind set timestamp = $2::timestamptz, deepened = deepened + 1, reason = concat_ws('; ', reason, $3::text)
     where id = $1`,
    [id, formatTime(timestamp), reason],
  )
}

export async function finishRewind(tx: Tx, id: string): Promise<void> {
  await tx.query('update rewind set finished_at = clock_timestamp() where id = $1', [id])
}

/** One entry per chain; a chain that rewinds again after a deepening adds to its own. */
export async function recordChainRewind(tx: Tx, rewindId: string, record: RewindChainRecord): Promise<void> {
  await tx.query(RECORD_CHAIN, [
    rewindId,
    record.chain,
    record.checkpointBefore,
    record.from,
    record.cut,
    record.removed.blocks,
    record.removed.events,
    record.seconds,
    record.carriedOutBy,
  ])
}

const RECORD_CHAIN = `
  insert into rewind_chain as r (rewind_id, chain, checkpoint_before, from_height, cut, blocks_removed, events_removed,
    seconds, carried_out_by, finished_at)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, clock_timestamp())
  on conflict (rewind_id, chain) do update set
    from_height = least(r.from_height, excluded.from_height),
    cut = excluded.cut,
    blocks_removed = r.blocks_removed + excluded.blocks_removed,
    events_removed = r.events_removed + excluded.events_removed,
    seconds = r.seconds + excluded.seconds,
    carried_out_by = excluded.carried_out_by,
    finished_at = excluded.finished_at`

export async function readRewind(tx: Tx, id: string): Promise<RewindRecord | null> {
  const { rows } = await tx.query<{
    id: string
    timestamp: TimeUs
    reason: string | null
    who: string
    requested_at: TimeUs
    deepened: number
    finished_at: TimeUs | null
  }>('select * from rewind where id = $1', [id])
  const row = rows[0]
  return row
    ? {
        id: row.id,
        timestamp: row.timestamp,
        reason: row.reason,
        who: row.who,
        requestedAt: row.requested_at,
        deepened: row.deepened,
        finishedAt: row.finished_at,
      }
    : null
}

export async function readRewindChains(tx: Tx, rewindId: string): Promise<RewindChainRecord[]> {
  const { rows } = await tx.query<{
    chain: ChainKey
    checkpoint_before: Height | null
    from_height: Height | null
    cut: Height | null
    blocks_removed: number
    events_removed: number
    seconds: number
    carried_out_by: string
  }>('select * from rewind_chain where rewind_id = $1 order by chain', [rewindId])
  return rows.map((row) => ({
    chain: row.chain,
    checkpointBefore: row.checkpoint_before,
    from: row.from_height,
    cut: row.cut,
    removed: { blocks: row.blocks_removed, events: row.events_removed },
    seconds: row.seconds,
    carriedOutBy: row.carried_out_by,
  }))
}

export async function recordRollback(
  tx: Tx,
  rollback: {
    chain: ChainKey
    checkpointBefore: Height
    forkPoint: Height | null
    removed: Removed
    seconds: number
  },
): Promise<void> {
  await tx.query(
    `insert into rollback (chain, checkpoint_before, fork_point, blocks_removed, events_removed, seconds, rolled_back_at)
     values ($1, $2, $3, $4, $5, $6, clock_timestamp())`,
    [
      rollback.chain,
      rollback.checkpointBefore,
      rollback.forkPoint,
      rollback.removed.blocks,
      rollback.removed.events,
      rollback.seconds,
    ],
  )
}
