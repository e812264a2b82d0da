import {
  type BlockRef,
  bytesOf,
  type ChainKey,
  fillGaps,
  type Gap,
  type GapPiece,
  type Hex,
  type SourceBlock,
} from '@lockstep/domain'
import { type ChainWriter, setCheckpoint } from './checkpoint.js'
import { openGaps, putGaps, readCovered, readGaps } from './covered-filters.js'
import type { Database, Tx } from './database.js'
import { eventRows, OBSERVED, observedValues } from './event-rows.js'
import {
  insertBlocks,
  insertEvents,
  markFallingAround,
  ObservationConflict,
  recordConflict,
} from './facts.js'
import { type ChildRow, insertChildren } from './registry.js'
import { insertTransactions } from './transactions.js'
import { lockKeyShared, refuseDuringRewind } from './write-key.js'

/** What a node gave for a piece of the gaps. */
export interface GapFill {
  readonly piece: GapPiece
  readonly first: BlockRef
  readonly last: BlockRef
  /** Blocks that become facts, ascending. */
  readonly facts: readonly SourceBlock[]
  readonly children: readonly ChildRow[]
}

export type FilledGap =
  | { readonly outcome: 'filled'; readonly gaps: readonly Gap[]; readonly children: readonly ChildRow[] }
  /** The node's blocks are not those that are stored: nothing was done. */
  | { readonly outcome: 'disagrees'; readonly height: number; readonly stored: Hex; readonly reported: Hex }

/** The node's blocks are not the stored ones: undo. */
class OtherBlocks extends Error {
  constructor(readonly found: Omit<Extract<FilledGap, { outcome: 'disagrees' }>, 'outcome'>) {
    super('the node has other blocks than are stored')
  }
}

/**
 * Stores what a piece of the gaps was missing, in one transaction, below a checkpoint that stays where it is. It is a
 * write like any other: refused during a rewind or pause, and fenced by the checkpoint's row.
 *
 * @throws WriteRefusedError, LeaseLostError, CheckpointMovedError, ConflictingObservationError
 */
export async function writeGap(db: Database, writer: ChainWriter, fill: GapFill): Promise<FilledGap> {
  const { chain, checkpoint } = writer
  const refs = fill.facts.map(({ ref }) => ref)
  try {
    return await db.transaction(async (tx) => {
      await lockKeyShared(tx)
      await refuseDuringRewind(tx)
      await setCheckpoint(tx, writer, checkpoint) // to the same: proves lease and checkpoint, and holds off others
      await refuseOtherBlocks(tx, chain, [fill.first, ...refs, fill.last])
      await insertBlocks(tx, chain, refs)
      await dropHeadersOf(tx, chain, refs)
      await markFallingAround(tx, chain, fill.piece.from, fill.piece.to)
      await insertGapEvents(tx, chain, fill.facts)
      await insertTransactions(tx, chain, fill.facts)
      const found = await insertChildren(tx, chain, fill.children)
      return { outcome: 'filled', gaps: await shortenGaps(tx, writer, fill.piece, found), children: found }
    })
  } catch (error) {
    if (error instanceof ObservationConflict) await db.transaction((tx) => recordConflict(tx, error))
    if (error instanceof OtherBlocks) return { outcome: 'disagrees', ...error.found }
    throw error
  }
}

/** What was fetched must be of the branch that is stored: the same blocks, linked to the same neighbours. */
async function refuseOtherBlocks(tx: Tx, chain: ChainKey, refs: readonly BlockRef[]): Promise<void> {
  const { rows } = await tx.query<{ height: number; stored: Hex; reported: Hex }>(OTHER_BLOCKS, [
    chain,
    refs.map(({ height }) => height),
    refs.map(({ hash }) => bytesOf(hash)),
    refs.map(({ parentHash }) => parentHash && bytesOf(parentHash)),
  ])
  if (rows[0]) throw new OtherBlocks(rows[0])
}

const OTHER_BLOCKS = `
  with observed as (select * from unnest($2::bigint[], $3::bytea[], $4::bytea[]) o (height, hash, parent_hash)),
    stored as (
      select height, hash, parent_hash from block where chain = $1
      union all select height, hash, parent_hash from header where chain = $1
      union all select height, hash, null from checkpoint where chain = $1)
  select height, '0x' || encode(stored, 'hex') as stored, '0x' || encode(reported, 'hex') as reported from (
    select o.height, s.hash as stored, o.hash as reported from observed o join stored s using (height)
    union all
    select s.height, s.hash, o.parent_hash from observed o join stored s on s.height = o.height - 1
      where o.parent_hash is not null
    union all
    select o.height, s.parent_hash, o.hash from observed o join stored s on s.height = o.height + 1
      where s.parent_hash is not null) each
  where stored <> reported order by height limit 1`

/** A block is a fact or kept for linking, not both. */
async function dropHeadersOf(tx: Tx, chain: ChainKey, refs: readonly BlockRef[]): Promise<void> {
  await tx.query('delete from header where chain = $1 and height = any($2)', [
    chain,
    refs.map(({ height }) => height),
  ])
}

/**
 * As `insertEvents`; but a log that is stored as another filter's goes first, where a filter before that one has come
 * to fit it: the same log, read as the config reads it now.
 */
async function insertGapEvents(tx: Tx, chain: ChainKey, blocks: readonly SourceBlock[]): Promise<void> {
  const rows = eventRows(blocks)
  if (rows.length > 0) await tx.query(REMOVE_OTHER_OWNERS, observedValues(chain, rows))
  await insertEvents(tx, chain, blocks)
}

const REMOVE_OTHER_OWNERS = `
  delete from event stored using (${OBSERVED}) observed
  where stored.chain = observed.chain and stored.height = observed.height and stored.tx_index = observed.tx_index
    and stored.event_index = observed.event_index and stored.tx_hash = observed.tx_hash
    and (stored.block_hash, stored.address, stored.topic0, stored.topic1, stored.topic2, stored.topic3, stored.data)
      is not distinct from (observed.block_hash, observed.address, observed.topic0, observed.topic1, observed.topic2,
      observed.topic3, observed.data)
    and (stored.contract, stored.name, stored.undecoded) is distinct from
      (observed.contract, observed.name, observed.undecoded)`

/**
 * The piece is done. A child that became known by it is missing from where it begins, and, since the way forward went on
 * without it, up to the checkpoint: gaps of its contract's filters, beyond what this piece has brought of them.
 */
async function shortenGaps(
  tx: Tx,
  { chain, checkpoint }: ChainWriter,
  piece: GapPiece,
  found: readonly ChildRow[],
): Promise<Gap[]> {
  let gaps = fillGaps(await readGaps(tx, chain), piece)
  const covered = found.length === 0 ? [] : await readCovered(tx, chain)
  for (const [contract, height] of lowestByContract(found)) {
    const filters = covered.filter((each) => each.contract === contract)
    const inPiece = filters.filter(({ filter }) => piece.filters.includes(filter))
    const others = filters.filter(({ filter }) => !piece.filters.includes(filter))
    gaps = openGaps(gaps, inPiece, piece.to + 1, checkpoint?.height ?? -1)
    gaps = openGaps(gaps, others, height, checkpoint?.height ?? -1)
  }
  await putGaps(tx, chain, gaps)
  return readGaps(tx, chain)
}

function lowestByContract(children: readonly ChildRow[]): Map<string, number> {
  const lowest = new Map<string, number>()
  for (const { contract, height } of children)
    lowest.set(contract, Math.min(height, lowest.get(contract) ?? height))
  return lowest
}
