import {
  type BlockRef,
  bytesOf,
  type ChainKey,
  CheckpointMovedError,
  formatTime,
  type Height,
  type Hex,
  hexOf,
  LeaseLostError,
  shortHash,
  type TimeUs,
} from '@lockstep/domain'
import type { Tx } from './database.js'
import { chainLease, type HeldLease } from './lease.js'

/** The last block up to which a chain is committed. It need not be a stored block: a rewind may take it from a node. */
export interface Checkpoint {
  readonly height: Height
  readonly hash: Hex
  readonly time: TimeUs
}

/** The right to write one chain, with what the writer believes of it. */
export interface ChainWriter {
  readonly chain: ChainKey
  readonly lease: HeldLease
  readonly checkpoint: Checkpoint | null
}

export const checkpointOf = (block: BlockRef | null): Checkpoint | null =>
  block && { height: block.height, hash: block.hash, time: block.time }

export async function readCheckpoint(tx: Tx, chain: ChainKey): Promise<Checkpoint | null> {
  const { rows } = await tx.query<CheckpointRow>('select * from checkpoint where chain = $1', [chain])
  return rows[0] ? parseCheckpoint(rows[0]) : null
}

/**
 * Moves the checkpoint by compare-and-set on height, hash, fencing token and holder. It is the first thing that any
 * change of a chain's data does, also one that turns out to change nothing: the row's lock orders all writers of the
 * chain, and a writer whose lease was taken, or that believes another checkpoint, gets no further.
 *
 * @throws LeaseLostError, CheckpointMovedError
 */
export async function setCheckpoint(tx: Tx, writer: ChainWriter, next: Checkpoint | null): Promise<void> {
  const { chain, checkpoint, lease } = writer
  const { rowCount } = await tx.query(SET_CHECKPOINT, [
    chain,
    ...columns(next),
    checkpoint?.height ?? null,
    checkpoint && bytesOf(checkpoint.hash),
    lease.token,
    lease.holder,
  ])
  if (rowCount !== 1) await explainRefusal(tx, writer)
}

/**
 * Proves that the checkpoint is what the writer believes and the chain is still its own, without changing it. It does
 * not wait for the row: whoever holds it is changing it, so what the writer believes is about to be wrong.
 *
 * @throws LeaseLostError, CheckpointMovedError; SQLSTATE 55P03 where the row is locked
 */
export async function proveCheckpoint(tx: Tx, writer: ChainWriter): Promise<void> {
  const { chain, checkpoint, lease } = writer
  const { rowCount } = await tx.query(
    `select from checkpoint where chain = $1 and height is not distinct from $2::bigint
       and hash is not distinct from $3::bytea and token = $4 and holder = $5 for update nowait`,
    [chain, checkpoint?.height ?? null, checkpoint && bytesOf(checkpoint.hash), lease.token, lease.holder],
  )
  if (rowCount !== 1) await explainRefusal(tx, writer)
}

const SET_CHECKPOINT = `
  update checkpoint set height = $2, hash = $3, block_time = $4::timestamptz
  where chain = $1 and height is not distinct from $5::bigint and hash is not distinct from $6::bytea
    and token = $7 and holder = $8`

async function explainRefusal(tx: Tx, { chain, checkpoint, lease }: ChainWriter): Promise<never> {
  const { rows } = await tx.query<CheckpointRow>('select * from checkpoint where chain = $1', [chain])
  const row = rows[0]
  if (row === undefined || row.token !== lease.token || row.holder !== lease.holder) {
    throw new LeaseLostError(
      chainLease(chain),
      `${row?.holder ?? 'nobody'} holds it with token ${row?.token ?? 'none'}, ours is ${lease.token}`,
    )
  }
  throw new CheckpointMovedError(chain, describe(checkpoint), describe(parseCheckpoint(row)))
}

const describe = (checkpoint: Checkpoint | null): string =>
  checkpoint === null ? 'before the start' : `${checkpoint.height} (${shortHash(checkpoint.hash)})`

const columns = (checkpoint: Checkpoint | null): [Height | null, Buffer | null, string | null] => [
  checkpoint?.height ?? null,
  checkpoint && bytesOf(checkpoint.hash),
  checkpoint && formatTime(checkpoint.time),
]

interface CheckpointRow {
  height: Height | null
  hash: Buffer | null
  block_time: TimeUs | null
  token: number
  holder: string | null
}

const parseCheckpoint = (row: CheckpointRow): Checkpoint | null =>
  row.height === null || row.hash === null || row.block_time === null
    ? null
    : { height: row.height, hash: hexOf(row.hash), time: row.block_time }
