import { type BlockRef, bytesOf, type ChainKey, formatTime, type SourceBlock } from '@lockstep/domain'
import type { Tx } from './database.js'
import { type ConflictSide, ObservationConflict } from './facts.js'

/*
 * Transactions as facts: those of a chain with `transactions: true` that hold an event. The one place where a
 * `TransactionFact` becomes a row, for storing it and for comparing it with what is stored.
 */

interface TransactionRow {
  readonly ref: BlockRef
  readonly transaction: SourceBlock['transactions'][number]
}

const transactionRows = (blocks: readonly SourceBlock[]): TransactionRow[] =>
  blocks.flatMap((block) => block.transactions.map((transaction) => ({ ref: block.ref, transaction })))

/** A select over `observedTransactionValues`, with the columns of `transaction` in their order. */
export const OBSERVED_TRANSACTIONS = `
  select $1::text as chain, * from unnest($2::bigint[], $3::int[], $4::bytea[], $5::bytea[], $6::timestamptz[],
    $7::boolean[], $8::bigint[], $9::text[], $10::text[], $11::numeric[], $12::numeric[], $13::numeric[], $14::jsonb[],
    $15::text[])
  as observed (height, tx_index, tx_hash, block_hash, block_time, success, code, from_address, to_address, value,
    gas_wanted, gas_used, fee, memo)`

export function observedTransactionValues(chain: ChainKey, blocks: readonly SourceBlock[]): unknown[] {
  const rows = transactionRows(blocks)
  return [
    chain,
    rows.map(({ ref }) => ref.height),
    rows.map(({ transaction }) => transaction.txIndex),
    rows.map(({ transaction }) => bytesOf(transaction.txHash)),
    rows.map(({ ref }) => bytesOf(ref.hash)),
    rows.map(({ ref }) => formatTime(ref.time)),
    rows.map(({ transaction }) => transaction.success),
    rows.map(({ transaction }) => transaction.code),
    rows.map(({ transaction }) => transaction.from),
    rows.map(({ transaction }) => transaction.to),
    rows.map(({ transaction }) => transaction.value),
    rows.map(({ transaction }) => transaction.gasWanted),
    rows.map(({ transaction }) => transaction.gasUsed),
    rows.map(({ transaction }) => (transaction.fee === null ? null : JSON.stringify(transaction.fee))),
    rows.map(({ transaction }) => transaction.memo),
  ]
}

const INSERT_TRANSACTIONS = `
  insert into transaction (chain, height, tx_index, tx_hash, block_hash, block_time, success, code, from_address,
    to_address, value, gas_wanted, gas_used, fee, memo)
  ${OBSERVED_TRANSACTIONS} on conflict do nothing`

const CONFLICTS = `
  select to_jsonb(stored) as stored, to_jsonb(observed) as observed
  from (${OBSERVED_TRANSACTIONS}) observed join transaction stored using (chain, height, tx_index, tx_hash)
  where
    (stored.block_hash, stored.block_time, stored.success, stored.code, stored.from_address, stored.to_address,
      stored.value, stored.gas_wanted, stored.gas_used, stored.fee, stored.memo)
    is distinct from
    (observed.block_hash, observed.block_time, observed.success, observed.code, observed.from_address,
      observed.to_address, observed.value, observed.gas_wanted, observed.gas_used, observed.fee, observed.memo)
  limit 1`

/** Blocks per statement: keeps one message to the server at a few MB. */
const BLOCKS_PER_INSERT = 500

/**
 * Stores transactions. The same observation twice is one row; the same identity with another content undoes the
 * transaction of the database.
 *
 * @throws ObservationConflict, to be recorded outside the transaction by `recordConflict`
 */
export async function insertTransactions(
  tx: Tx,
  chain: ChainKey,
  blocks: readonly SourceBlock[],
): Promise<void> {
  const holding = blocks.filter((block) => block.transactions.length > 0)
  for (let start = 0; start < holding.length; start += BLOCKS_PER_INSERT) {
    await insertTransactionsOf(tx, chain, holding.slice(start, start + BLOCKS_PER_INSERT))
  }
}

async function insertTransactionsOf(tx: Tx, chain: ChainKey, blocks: readonly SourceBlock[]): Promise<void> {
  const values = observedTransactionValues(chain, blocks)
  const { rowCount } = await tx.query(INSERT_TRANSACTIONS, values)
  if (rowCount === transactionRows(blocks).length) return
  const { rows: conflicts } = await tx.query<{ stored: ConflictSide; observed: ConflictSide }>(
    CONFLICTS,
    values,
  )
  if (conflicts[0]) throw new ObservationConflict(chain, conflicts[0].stored, conflicts[0].observed)
}
