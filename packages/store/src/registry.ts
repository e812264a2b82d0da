import {
  type ChainKey,
  type ChildContract,
  type Height,
  KnownChildren,
  type SourceBlock,
} from '@lockstep/domain'
import type { Tx } from './database.js'

/** A child with the block of the event that tells of it. */
export interface ChildRow extends ChildContract {
  readonly height: Height
}

export const childRows = (blocks: readonly SourceBlock[]): ChildRow[] =>
  blocks.flatMap(({ ref, children }) => children.map((child) => ({ ...child, height: ref.height })))

/**
 * Registers children. The first event that tells of one counts: a child that is told of again keeps its row, and one
 * that is found at a lower position (in a gap) takes that.
 *
 * @returns those that are known from a lower position than before, or were not known
 */
export async function insertChildren(
  tx: Tx,
  chain: ChainKey,
  children: readonly ChildRow[],
): Promise<ChildRow[]> {
  if (children.length === 0) return []
  const { rows } = await tx.query<ChildColumns>(INSERT_CHILDREN, [chain, ...childColumns(children)])
  return rows.map(parseChild)
}

/** A select over `childColumns`, from $2 on. */
export const OBSERVED_CHILDREN = `
  select distinct on (contract, address) contract, address, height, tx_index, event_index
  from unnest($2::text[], $3::text[], $4::bigint[], $5::int[], $6::int[])
    as observed (contract, address, height, tx_index, event_index)
  order by contract, address, height, tx_index, event_index`

export const childColumns = (children: readonly ChildRow[]): unknown[] => [
  children.map(({ contract }) => contract),
  children.map(({ address }) => address),
  children.map(({ height }) => height),
  children.map(({ txIndex }) => txIndex),
  children.map(({ eventIndex }) => eventIndex),
]

const INSERT_CHILDREN = `
  insert into contract_registry as known (chain, contract, address, height, tx_index, event_index)
  select $1, * from (${OBSERVED_CHILDREN}) observed
  on conflict (chain, contract, address) do update
    set height = excluded.height, tx_index = excluded.tx_index, event_index = excluded.event_index
    where (excluded.height, excluded.tx_index, excluded.event_index) < (known.height, known.tx_index, known.event_index)
  returning contract, address, height, tx_index, event_index`

/** All that the facts of a chain tell of: what belongs to its checkpoint. */
export async function readChildren(tx: Tx, chain: ChainKey): Promise<KnownChildren> {
  const { rows } = await tx.query<ChildColumns>(
    `select contract, address, height, tx_index, event_index from contract_registry where chain = $1
     order by height, tx_index, event_index, contract, address`,
    [chain],
  )
  return new KnownChildren(rows)
}

interface ChildColumns {
  contract: string
  address: string
  height: Height
  tx_index: number
  event_index: number
}

const parseChild = (row: ChildColumns): ChildRow => ({
  contract: row.contract,
  address: row.address,
  height: row.height,
  txIndex: row.tx_index,
  eventIndex: row.event_index,
})
