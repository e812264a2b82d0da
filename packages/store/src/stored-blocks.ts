import { type BlockRef, type ChainKey, formatTime, type Height, hexOf, type TimeUs } from '@lockstep/domain'
import type { Database, Tx } from './database.js'

/*
 * Stored blocks are those of `block` and `header` together: a block is in one of the two.
 */

const PAGE = 64

/** The stored blocks at or below `top` (all where null), from the highest down, read as they are needed. */
export async function* storedBlocksDown(
  db: Database,
  chain: ChainKey,
  top: Height | null,
): AsyncGenerator<BlockRef> {
  let below: number | null = top
  for (;;) {
    const page = await db.transaction((tx) => readDown(tx, chain, below, PAGE))
    yield* page
    const lowest = page.at(-1)
    if (lowest === undefined || page.length < PAGE) return
    below = lowest.height - 1
  }
}

/** The highest stored block below `height`; null where there is none. */
export async function lastStoredBelow(tx: Tx, chain: ChainKey, height: number): Promise<BlockRef | null> {
  return (await readDown(tx, chain, height - 1, 1))[0] ?? null
}

const DOWN = `
  select * from (
    (select height, hash, parent_hash, block_time from block
      where chain = $1 and height <= coalesce($2, 9223372036854775807) order by height desc limit $3)
    union all
    (select height, hash, parent_hash, block_time from header
      where chain = $1 and height <= coalesce($2, 9223372036854775807) order by height desc limit $3)
  ) stored order by height desc limit $3`

async function readDown(tx: Tx, chain: ChainKey, top: number | null, limit: number): Promise<BlockRef[]> {
  const { rows } = await tx.query<BlockRow>(DOWN, [chain, top, limit])
  return rows.map(parseBlock)
}

export async function readStoredBlock(tx: Tx, chain: ChainKey, height: Height): Promise<BlockRef | null> {
  const stored = await lastStoredBelow(tx, chain, height + 1)
  return stored?.height === height ? stored : null
}

/** The block of a stored event with that transaction hash. */
export async function readBlockOfTransaction(
  tx: Tx,
  chain: ChainKey,
  txHash: Buffer,
): Promise<BlockRef | null> {
  const { rows } = await tx.query<{ height: Height }>(
    'select height from event where chain = $1 and tx_hash = $2 order by height limit 1',
    [chain, txHash],
  )
  return rows[0] ? readStoredBlock(tx, chain, rows[0].height) : null
}

/**
 * The lowest height that goes in a rewind to `time`: the lowest with a block time after it among stored blocks and the
 * checkpoint itself. It needs no node. Null: nothing is stored after `time`.
 *
 * Where the chain's times never fell, the first block by time is the lowest by height, and an index finds it at once;
 * a plain `min(height)` would walk the whole history, while everybody waits.
 */
export async function readFrom(
  tx: Tx,
  chain: ChainKey,
  time: TimeUs,
): Promise<{ height: Height; time: TimeUs } | null> {
  const { rows: fell } = await tx.query<{ times_fell: boolean }>(
    'select times_fell from chain where chain = $1',
    [chain],
  )
  const sql = fell[0]?.times_fell ? FROM_WHERE_TIMES_FELL : FROM
  const { rows } = await tx.query<{ height: Height; block_time: TimeUs }>(sql, [chain, formatTime(time)])
  return rows[0] ? { height: rows[0].height, time: rows[0].block_time } : null
}

const FROM = `
  select height, block_time from (
    (select height, block_time from block where chain = $1 and block_time > $2::timestamptz
      order by block_time, height limit 1)
    union all
    (select height, block_time from header where chain = $1 and block_time > $2::timestamptz
      order by block_time, height limit 1)
    union all
    (select height, block_time from checkpoint where chain = $1 and block_time > $2::timestamptz)
  ) late order by height limit 1`

const FROM_WHERE_TIMES_FELL = `
  with late as materialized (
    select height, block_time from block where chain = $1 and block_time > $2::timestamptz
    union all
    select height, block_time from header where chain = $1 and block_time > $2::timestamptz
    union all
    select height, block_time from checkpoint where chain = $1 and block_time > $2::timestamptz)
  select height, block_time from late order by height limit 1`

/** The time of the height that goes first: of the stored block there, else of the checkpoint. */
export async function readTimeAt(tx: Tx, chain: ChainKey, height: Height): Promise<TimeUs | null> {
  const { rows } = await tx.query<{ block_time: TimeUs }>(
    `select block_time from block where chain = $1 and height = $2
     union all select block_time from header where chain = $1 and height = $2
     union all select block_time from checkpoint where chain = $1 and height = $2 limit 1`,
    [chain, height],
  )
  return rows[0]?.block_time ?? null
}

interface BlockRow {
  height: Height
  hash: Buffer
  parent_hash: Buffer | null
  block_time: TimeUs
}

const parseBlock = (row: BlockRow): BlockRef => ({
  height: row.height,
  hash: hexOf(row.hash),
  parentHash: row.parent_hash && hexOf(row.parent_hash),
  time: row.block_time,
})
