import { type ChainKey, formatTime, type Height, type TimeUs } from '@lockstep/domain'
import type { Database, Tx } from './database.js'

/** Where a chain's worker is in its life. */
export type Phase =
  | 'starting'
  | 'backfill'
  | 'live'
  | 'waiting'
  | 'paused'
  | 'rewinding'
  | 'finished'
  | 'stopped'

/** What a worker says of itself, at an interval and at each change of phase. */
export interface WorkerReport {
  readonly chain: ChainKey
  readonly phase: Phase
  readonly reason: string | null
  readonly headHeight: Height | null
  readonly headTime: TimeUs | null
  readonly finalizedHeight: Height | null
  readonly endHeight: Height | null
  readonly blocksPerSecond: number | null
  readonly eventsPerSecond: number | null
  /** Blocks per second while there were ranges to fetch; null: not measured by this worker, the last one's stays. */
  readonly backfillBlocksPerSecond: number | null
}

/** One chain as `lockstep status` shows it: all of it from the database. */
export interface ChainStatus extends WorkerReport {
  readonly checkpointHeight: Height | null
  readonly checkpointTime: TimeUs | null
  readonly startHeight: Height
  /** Who holds the chain's lease now; null: no worker. */
  readonly worker: string | null
  /** Seconds since the worker last said something; null: never. */
  readonly reportAgeSeconds: number | null
}

export async function writeReport(db: Database, report: WorkerReport): Promise<void> {
  await db.transaction((tx) =>
    tx.query(WRITE_REPORT, [
      report.chain,
      report.phase,
      report.reason,
      report.headHeight,
      report.headTime === null ? null : formatTime(report.headTime),
      report.finalizedHeight,
      report.endHeight,
      report.blocksPerSecond,
      report.eventsPerSecond,
      report.backfillBlocksPerSecond,
    ]),
  )
}

const WRITE_REPORT = `
  insert into chain_status (chain, phase, reason, head_height, head_time, finalized_height, end_height,
    blocks_per_second, events_per_second, backfill_blocks_per_second, updated_at)
  values ($1, $2, $3, $4, $5::timestamptz, $6, $7, $8, $9, $10, clock_timestamp())
  on conflict (chain) do update set phase = excluded.phase, reason = excluded.reason,
    head_height = coalesce(excluded.head_height, chain_status.head_height),
    head_time = coalesce(excluded.head_time, chain_status.head_time),
    finalized_height = coalesce(excluded.finalized_height, chain_status.finalized_height),
    end_height = excluded.end_height, blocks_per_second = excluded.blocks_per_second,
    events_per_second = excluded.events_per_second,
    backfill_blocks_per_second = coalesce(excluded.backfill_blocks_per_second, chain_status.backfill_blocks_per_second),
    updated_at = excluded.updated_at`

export async function readStatus(tx: Tx): Promise<ChainStatus[]> {
  const { rows } = await tx.query<StatusRow>(READ_STATUS)
  return rows.map((row) => ({
    chain: row.chain,
    phase: row.phase ?? 'stopped',
    reason: row.phase === null ? 'no worker has run yet' : row.reason,
    headHeight: row.head_height,
    headTime: row.head_time,
    finalizedHeight: row.finalized_height,
    endHeight: row.end_height,
    blocksPerSecond: row.blocks_per_second,
    eventsPerSecond: row.events_per_second,
    backfillBlocksPerSecond: row.backfill_blocks_per_second,
    checkpointHeight: row.height,
    checkpointTime: row.block_time,
    startHeight: row.start_height,
    worker: row.holder,
    reportAgeSeconds: row.age,
  }))
}

const READ_STATUS = `
  select c.chain, c.start_height, p.height, p.block_time, s.phase, s.reason, s.head_height, s.head_time,
    s.finalized_height, s.end_height, s.blocks_per_second, s.events_per_second, s.backfill_blocks_per_second,
    extract(epoch from clock_timestamp() - s.updated_at)::float8 as age,
    case when l.expires_at > clock_timestamp() then l.holder end as holder
  from chain c join checkpoint p using (chain)
    left join chain_status s using (chain)
    left join lease l on l.name = 'chain:' || c.chain
  order by c.chain`

interface StatusRow {
  chain: ChainKey
  start_height: Height
  height: Height | null
  block_time: TimeUs | null
  phase: Phase | null
  reason: string | null
  head_height: Height | null
  head_time: TimeUs | null
  finalized_height: Height | null
  end_height: Height | null
  blocks_per_second: number | null
  events_per_second: number | null
  backfill_blocks_per_second: number | null
  age: number | null
  holder: string | null
}

/** The database's clock: the one that requests are judged by. */
export async function readClock(tx: Tx): Promise<TimeUs> {
  const { rows } = await tx.query<{ now: TimeUs }>('select clock_timestamp() as now')
  return (rows[0] as { now: TimeUs }).now
}

/** The newest block time that any chain has stored or reached; null: nothing is stored. */
export async function readNewestBlockTime(tx: Tx): Promise<TimeUs | null> {
  const { rows } = await tx.query<{ newest: TimeUs | null }>(`
    select greatest(
      (select max(block_time) from checkpoint),
      (select max(newest) from chain c, lateral (select max(block_time) as newest from block b where b.chain = c.chain) b)
    ) as newest`)
  return rows[0]?.newest ?? null
}

/** What would go from `from` on. */
export async function countAbove(
  tx: Tx,
  chain: ChainKey,
  from: Height,
): Promise<{ blocks: number; events: number }> {
  const { rows } = await tx.query<{ blocks: number; events: number }>(
    `select (select count(*) from block where chain = $1 and height >= $2) as blocks,
      (select count(*) from event where chain = $1 and height >= $2) as events`,
    [chain, from],
  )
  return rows[0] ?? { blocks: 0, events: 0 }
}
