import {
  type BlockRef,
  bytesOf,
  type ChainKey,
  ConflictingObservationError,
  formatTime,
  type Height,
  invariant,
  type SourceBlock,
} from '@lockstep/domain'
import type { Tx } from './database.js'
import { type EventRow, eventRows, OBSERVED, observedValues } from './event-rows.js'

/** What one removal took away. Headers are not facts and not counted. */
export interface Removed {
  readonly blocks: number
  readonly events: number
}

/** Stores blocks as facts. A block that is there already with the same hash is the same observation. */
export async function insertBlocks(tx: Tx, chain: ChainKey, blocks: readonly BlockRef[]): Promise<void> {
  await insertLinked(tx, INSERT_BLOCKS, chain, blocks)
}

/** Keeps blocks for linking only. */
export async function insertHeaders(tx: Tx, chain: ChainKey, headers: readonly BlockRef[]): Promise<void> {
  await insertLinked(tx, INSERT_HEADERS, chain, headers)
}

const INSERT_BLOCKS = `
  insert into block (chain, height, hash, parent_hash, block_time)
  select $1, * from unnest($2::bigint[], $3::bytea[], $4::bytea[], $5::timestamptz[]) on conflict do nothing`

const INSERT_HEADERS = `
  insert into header (chain, height, hash, parent_hash, block_time)
  select $1, * from unnest($2::bigint[], $3::bytea[], $4::bytea[], $5::timestamptz[]) on conflict do nothing`

async function insertLinked(tx: Tx, sql: string, chain: ChainKey, refs: readonly BlockRef[]): Promise<void> {
  if (refs.length === 0) return
  const heights = refs.map((ref) => ref.height)
  const hashes = refs.map((ref) => bytesOf(ref.hash))
  const parents = refs.map((ref) => ref.parentHash && bytesOf(ref.parentHash))
  const times = refs.map((ref) => formatTime(ref.time))
  const { rowCount } = await tx.query(sql, [chain, heights, hashes, parents, times])
  if (rowCount === refs.length) return
  const { rows } = await tx.query(OTHER_BLOCKS, [chain, heights, hashes])
  invariant(rows.length === 0, 'no other block is stored at a height above the checkpoint')
}

const OTHER_BLOCKS = `
  select from unnest($2::bigint[], $3::bytea[]) observed (height, hash)
    join (select * from block union all select * from header) stored using (height)
  where stored.chain = $1 and stored.hash <> observed.hash`

/** Rows per statement: keeps one message to the server at a few MB. */
const EVENTS_PER_INSERT = 2000

/**
 * Stores events. The same observation twice is one row; the same identity with another content undoes the transaction.
 *
 * @throws ObservationConflict, to be recorded outside the transaction by `recordConflict`
 */
export async function insertEvents(tx: Tx, chain: ChainKey, blocks: readonly SourceBlock[]): Promise<void> {
  const rows = eventRows(blocks)
  for (let start = 0; start < rows.length; start += EVENTS_PER_INSERT) {
    await insertEventRows(tx, chain, rows.slice(start, start + EVENTS_PER_INSERT))
  }
}

const INSERT_EVENTS = `
  insert into event (chain, height, tx_index, event_index, tx_hash, block_hash, block_time, contract, address, name,
    args, topic0, topic1, topic2, topic3, data, undecoded)
  ${OBSERVED} on conflict do nothing`

const CONFLICTS = `
  select to_jsonb(stored) as stored, to_jsonb(observed) as observed
  from (${OBSERVED}) observed join event stored using (chain, height, tx_index, event_index, tx_hash)
  where
    (stored.block_hash, stored.block_time, stored.contract, stored.address, stored.name, stored.args, stored.topic0,
      stored.topic1, stored.topic2, stored.topic3, stored.data, stored.undecoded)
    is distinct from
    (observed.block_hash, observed.block_time, observed.contract, observed.address, observed.name, observed.args,
      observed.topic0, observed.topic1, observed.topic2, observed.topic3, observed.data, observed.undecoded)
  limit 1`

async function insertEventRows(tx: Tx, chain: ChainKey, rows: readonly EventRow[]): Promise<void> {
  const values = observedValues(chain, rows)
  const { rowCount } = await tx.query(INSERT_EVENTS, values)
  if (rowCount === rows.length) return
  const { rows: conflicts } = await tx.query<{ stored: ConflictSide; observed: ConflictSide }>(
    CONFLICTS,
    values,
  )
  if (conflicts[0]) throw new ObservationConflict(chain, conflicts[0].stored, conflicts[0].observed)
}

/** A row as `to_jsonb` gives it. */
export interface ConflictSide {
  readonly height: Height
  readonly tx_index: number
  /** Not there where it is a transaction. */
  readonly event_index?: number
  readonly tx_hash: string
}

/** Two contents for one identity, of an event or a transaction, as both are. */
export class ObservationConflict extends ConflictingObservationError {
  constructor(
    readonly chain: ChainKey,
    readonly stored: ConflictSide,
    readonly observed: ConflictSide,
  ) {
    super(chain, stored.height, stored.tx_index, stored.event_index ?? null)
  }
}

/** Keeps both contents for investigation: in a transaction of its own, since the one that met them was undone. */
export async function recordConflict(tx: Tx, conflict: ObservationConflict): Promise<void> {
  await tx.query(
    `insert into event_conflict (chain, height, tx_index, event_index, tx_hash, stored, observed)
     values ($1, $2, $3, $4, ($5::jsonb ->> 'tx_hash')::bytea, $5, $6)`,
    [
      conflict.chain,
      conflict.stored.height,
      conflict.stored.tx_index,
      conflict.stored.event_index ?? null,
      JSON.stringify(conflict.stored),
      JSON.stringify(conflict.observed),
    ],
  )
}

/**
 * Removes all that is stored above `cut` (null: everything): the backward half of a write. Children that are told of
 * from above it are known no more.
 */
export async function removeAbove(tx: Tx, chain: ChainKey, cut: Height | null): Promise<Removed> {
  const values = [chain, cut ?? -1]
  const events = await tx.query('delete from event where chain = $1 and height > $2', values)
  await tx.query('delete from transaction where chain = $1 and height > $2', values)
  const blocks = await tx.query('delete from block where chain = $1 and height > $2', values)
  await tx.query('delete from header where chain = $1 and height > $2', values)
  await tx.query('delete from contract_registry where chain = $1 and height > $2', values)
  return { events: events.rowCount ?? 0, blocks: blocks.rowCount ?? 0 }
}

/**
 * Drops headers that link nothing any more: those of finalized heights, save the checkpoint's. The blocks that the
 * chain may still take back stay, since a fork is found by them.
 */
export async function pruneHeaders(
  tx: Tx,
  chain: ChainKey,
  finalized: Height | null,
  checkpoint: Height,
): Promise<void> {
  if (finalized === null) return
  await tx.query('delete from header where chain = $1 and height < $2', [
    chain,
    Math.min(finalized, checkpoint),
  ])
}

/**
 * Marks a chain whose times fell: where a stored block's time is below that of the stored block under it, the lowest
 * height after a time can no longer be found by time alone. `refs` are what this write stores, ascending.
 */
export async function markFallingTimes(tx: Tx, chain: ChainKey, refs: readonly BlockRef[]): Promise<void> {
  const first = refs[0]
  if (first === undefined) return
  const fellInside = refs.some((ref, index) => ref.time < (refs[index - 1]?.time ?? ref.time))
  await tx.query(MARK_FALLING, [chain, first.height, formatTime(first.time), fellInside])
}

const MARK_FALLING = `
  update chain set times_fell = true where chain = $1 and not times_fell and ($4 or $3::timestamptz < greatest(
    (select block_time from block where chain = $1 and height < $2 order by height desc limit 1),
    (select block_time from header where chain = $1 and height < $2 order by height desc limit 1)))`

/** As `markFallingTimes`, for blocks that came between stored ones: `from..to` and the stored neighbours around it. */
export async function markFallingAround(tx: Tx, chain: ChainKey, from: Height, to: Height): Promise<void> {
  await tx.query(MARK_FALLING_AROUND, [chain, from, to])
}

const MARK_FALLING_AROUND = `
  update chain set times_fell = true where chain = $1 and not times_fell and exists (
    select from (
      select block_time, lag(block_time) over (order by height) as before from (
        (select height, block_time from block where chain = $1 and height < $2 order by height desc limit 1)
        union all (select height, block_time from header where chain = $1 and height < $2 order by height desc limit 1)
        union all select height, block_time from block where chain = $1 and height between $2 and $3
        union all select height, block_time from header where chain = $1 and height between $2 and $3
        union all (select height, block_time from block where chain = $1 and height > $3 order by height limit 1)
        union all (select height, block_time from header where chain = $1 and height > $3 order by height limit 1)
      ) stored) neighbours
    where block_time < before)`
