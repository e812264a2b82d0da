import { type ChainKey, formatTime, type Height, invariant, type TimeUs } from '@lockstep/domain'
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
  /** The chain whose fork asked for it; null: an operator did. */
  readonly forkedChain: ChainKey | null
  readonly requestedAt: TimeUs
  /** How often an earlier moment joined. */
  readonly deepened: number
  readonly finishedAt: TimeUs | null
  readonly cancelledAt: TimeUs | null
}

/** A rollback of one chain after a fork. */
export interface RollbackRecord {
  readonly chain: ChainKey
  readonly checkpointBefore: Height
  /** Null: before the chain's start. */
  readonly forkPoint: Height | null
  readonly removed: Removed
  readonly seconds: number
  readonly rolledBackAt: TimeUs
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
  rewind: Pick<RewindRecord, 'id' | 'timestamp' | 'reason' | 'who' | 'forkedChain'>,
): Promise<void> {
  await tx.query(
    `insert into rewind (id, timestamp, reason, who, forked_chain, requested_at)
     values ($1, $2::timestamptz, $3, $4, $5, clock_timestamp())`,
    [rewind.id, formatTime(rewind.timestamp), rewind.reason, rewind.who, rewind.forkedChain],
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

export async function cancelRewindRecord(tx: Tx, id: string): Promise<void> {
  await tx.query('update rewind set cancelled_at = clock_timestamp() where id = $1', [id])
}

/**
 * Whether a chain has moved its checkpoint or removed anything in this rewind. A deepening keeps a chain's first
 * `checkpoint_before` and its latest cut. The two tell of every move between them: within one rewind a checkpoint only
 * falls, since a cut lies below `from`, and `from` is at most the checkpoint.
 */
export async function anyChainMoved(tx: Tx, id: string): Promise<boolean> {
  const { rows } = await tx.query<{ moved: boolean }>(
    `select exists (select from rewind_chain where rewind_id = $1
       and (checkpoint_before is distinct from cut or blocks_removed > 0 or events_removed > 0)) as moved`,
    [id],
  )
  return rows[0]?.moved === true
}

export async function readRewind(tx: Tx, id: string): Promise<RewindRecord | null> {
  const { rows } = await tx.query<RewindRow>('select * from rewind where id = $1', [id])
  return rows[0] ? parseRewind(rows[0]) : null
}

/** Newest first. */
export async function readRewinds(tx: Tx, limit: number): Promise<RewindRecord[]> {
  const { rows } = await tx.query<RewindRow>('select * from rewind order by requested_at desc limit $1', [
    limit,
  ])
  return rows.map(parseRewind)
}

/** Those whose id begins with `prefix`, as people type it; at most two, which is enough to tell that it is not unique. */
export async function findRewinds(tx: Tx, prefix: string): Promise<RewindRecord[]> {
  const { rows } = await tx.query<RewindRow>(
    'select * from rewind where starts_with(id::text, lower($1)) order by requested_at desc limit 2',
    [prefix],
  )
  return rows.map(parseRewind)
}

interface RewindRow {
  id: string
  timestamp: TimeUs
  reason: string | null
  who: string
  forked_chain: ChainKey | null
  requested_at: TimeUs
  deepened: number
  finished_at: TimeUs | null
  cancelled_at: TimeUs | null
}

const parseRewind = (row: RewindRow): RewindRecord => ({
  id: row.id,
  timestamp: row.timestamp,
  reason: row.reason,
  who: row.who,
  forkedChain: row.forked_chain,
  requestedAt: row.requested_at,
  deepened: row.deepened,
  finishedAt: row.finished_at,
  cancelledAt: row.cancelled_at,
})

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

/**
 * Begins the entry of a rollback, before anything is removed: what it takes off the chain is kept under its number.
 * `closeRollback`, in the same transaction, says what came of it.
 */
export async function openRollback(
  tx: Tx,
  chain: ChainKey,
  checkpointBefore: Height,
  forkPoint: Height | null,
): Promise<number> {
  const { rows } = await tx.query<{ id: number }>(
    `insert into rollback (chain, checkpoint_before, fork_point, blocks_removed, events_removed, seconds, rolled_back_at)
     values ($1, $2, $3, 0, 0, 0, clock_timestamp()) returning id`,
    [chain, checkpointBefore, forkPoint],
  )
  invariant(rows[0] !== undefined, 'an insert gives its row')
  return rows[0].id
}

export async function closeRollback(tx: Tx, id: number, removed: Removed, seconds: number): Promise<void> {
  await tx.query(
    `update rollback set blocks_removed = $2, events_removed = $3, seconds = $4, rolled_back_at = clock_timestamp()
     where id = $1`,
    [id, removed.blocks, removed.events, seconds],
  )
}

/** Newest first; null chain: of all. */
export async function readRollbacks(
  tx: Tx,
  chain: ChainKey | null,
  limit: number,
): Promise<RollbackRecord[]> {
  const { rows } = await tx.query<{
    chain: ChainKey
    checkpoint_before: Height
    fork_point: Height | null
    blocks_removed: number
    events_removed: number
    seconds: number
    rolled_back_at: TimeUs
  }>('select * from rollback where chain = coalesce($1, chain) order by id desc limit $2', [chain, limit])
  return rows.map((row) => ({
    chain: row.chain,
    checkpointBefore: row.checkpoint_before,
    forkPoint: row.fork_point,
    removed: { blocks: row.blocks_removed, events: row.events_removed },
    seconds: row.seconds,
    rolledBackAt: row.rolled_back_at,
  }))
}

/** Rows removed per second in earlier rewinds and rollbacks that removed enough to tell; null: none did. */
export async function readRemovalRate(tx: Tx): Promise<number | null> {
  const { rows } = await tx.query<{ rate: number | null }>(
    `select (sum(removed) / nullif(sum(seconds), 0))::float8 as rate from (
       (select blocks_removed + events_removed as removed, seconds from rewind_chain
         where blocks_removed + events_removed > 100 order by finished_at desc limit 20)
       union all
       (select blocks_removed + events_removed, seconds from rollback
         where blocks_removed + events_removed > 100 order by id desc limit 20)) recent`,
  )
  return rows[0]?.rate ?? null
}
