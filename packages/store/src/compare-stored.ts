import {
  type BlockRef,
  bytesOf,
  type ChainKey,
  formatTime,
  type Height,
  type SourceBlock,
} from '@lockstep/domain'
import type { Tx } from './database.js'
import { eventRows, OBSERVED, observedValues } from './event-rows.js'
import { childColumns, childRows, OBSERVED_CHILDREN } from './registry.js'
import { OBSERVED_TRANSACTIONS, observedTransactionValues } from './transactions.js'

/** One row that is on one side only. */
export interface FactDifference {
  readonly table: 'block' | 'event' | 'transaction' | 'contract_registry'
  /** `missing`: the chain has it, the tables do not. `surplus`: the other way round. A changed row is both. */
  readonly side: 'missing' | 'surplus'
  readonly height: Height
  readonly row: string
}

/** What is stored in a stretch of heights, beside what the chain says of it. */
export interface StoredComparison {
  readonly blocks: number
  readonly events: number
  readonly differences: readonly FactDifference[]
  /** There are more differences than are listed. */
  readonly truncated: boolean
}

/** Enough to see what is wrong, without a page per block. */
const DIFFERENCES_MAX = 50

/**
 * Compares the facts of `from..to` with what the node gives for the same heights, row by row; the database itself
 * normalises both sides, so that equal means equal as stored.
 */
export async function compareStored(
  tx: Tx,
  chain: ChainKey,
  range: { readonly from: Height; readonly to: Height },
  observed: readonly SourceBlock[],
): Promise<StoredComparison> {
  const events = await tx.query<DifferenceRow>(EVENT_DIFFERENCES, [
    ...observedValues(chain, eventRows(observed)),
    range.from,
    range.to,
  ])
  const blocks = await tx.query<DifferenceRow>(BLOCK_DIFFERENCES, [
    ...blockValues(chain, observed),
    range.from,
    range.to,
  ])
  const transactions = await tx.query<DifferenceRow>(TRANSACTION_DIFFERENCES, [
    ...observedTransactionValues(chain, observed),
    range.from,
    range.to,
  ])
  const children = await tx.query<DifferenceRow>(CHILD_DIFFERENCES, [
    chain,
    ...childColumns(childRows(observed)),
    range.from,
    range.to,
  ])
  const { rows: counts } = await tx.query<{ blocks: number; events: number }>(COUNTS, [
    chain,
    range.from,
    range.to,
  ])
  return {
    blocks: counts[0]?.blocks ?? 0,
    events: counts[0]?.events ?? 0,
    truncated: [blocks, events, transactions, children].some(({ rows }) => rows.length === DIFFERENCES_MAX),
    differences: [
      ...blocks.rows.map((row) => ({ table: 'block' as const, ...row })),
      ...events.rows.map((row) => ({ table: 'event' as const, ...row })),
      ...transactions.rows.map((row) => ({ table: 'transaction' as const, ...row })),
      ...children.rows.map((row) => ({ table: 'contract_registry' as const, ...row })),
    ],
  }
}

interface DifferenceRow {
  side: 'missing' | 'surplus'
  height: Height
  row: string
}

const blockValues = (chain: ChainKey, blocks: readonly SourceBlock[]): unknown[] => {
  const refs: readonly BlockRef[] = blocks.map((block) => block.ref)
  return [
    chain,
    refs.map((ref) => ref.height),
    refs.map((ref) => bytesOf(ref.hash)),
    refs.map((ref) => ref.parentHash && bytesOf(ref.parentHash)),
    refs.map((ref) => formatTime(ref.time)),
  ]
}

const COUNTS = `
  select (select count(*) from block where chain = $1 and height between $2 and $3) as blocks,
    (select count(*) from event where chain = $1 and height between $2 and $3) as events`

/** Both ways round. The casts make the two sides' types equal, which EXCEPT asks for. */
const differences = (observed: string, table: string, columns: string, from: string, to: string): string => `
  with observed as (select ${columns} from (${observed}) o), stored as (
    select ${columns} from ${table} where chain = $1 and height between ${from} and ${to})
  select side, height, row::text as row from (
    select 'missing' as side, height, to_jsonb(m) as row from (select * from observed except select * from stored) m
    union all
    select 'surplus', height, to_jsonb(s) from (select * from stored except select * from observed) s
  ) differing order by height, side limit ${DIFFERENCES_MAX}`

const EVENT_DIFFERENCES = differences(
  OBSERVED,
  'event',
  `height, tx_index, event_index, tx_hash, block_hash, block_time, contract, address, name, args, topic0, topic1, topic2,
    topic3, data, undecoded`,
  '$18',
  '$19',
)

const TRANSACTION_DIFFERENCES = differences(
  OBSERVED_TRANSACTIONS,
  'transaction',
  `height, tx_index, tx_hash, block_hash, block_time, success, code, from_address, to_address, value, gas_wanted, gas_used,
    fee, memo`,
  '$16',
  '$17',
)

const OBSERVED_BLOCKS = `
  select * from unnest($2::bigint[], $3::bytea[], $4::bytea[], $5::timestamptz[]) as b (height, hash, parent_hash, block_time)`

const BLOCK_DIFFERENCES = differences(
  OBSERVED_BLOCKS,
  'block',
  'height, hash, parent_hash, block_time',
  '$6',
  '$7',
)

/** A child that is told of again, above its first event, is no row. */
const CHILD_DIFFERENCES = differences(
  `select * from (${OBSERVED_CHILDREN}) first where not exists (
    select from contract_registry known where known.chain = $1 and known.contract = first.contract
      and known.address = first.address and known.height < $7)`,
  'contract_registry',
  'height, tx_index, event_index, contract, address',
  '$7',
  '$8',
)
