import { type ChainKey, type Gap, type Height, openGap } from '@lockstep/domain'
import type { CoveredFilter } from './config-change.js'
import type { Tx } from './database.js'

/*
 * What a chain's facts cover: the filters of `chain_filter`, and the heights that a filter is still missing, its gaps.
 * Gaps are rows of `backfill_ranges` under the filter's digest, so that a rollback or rewind shortens them as any range.
 */

/** In the order of the config. */
export async function readCovered(tx: Tx, chain: ChainKey): Promise<CoveredFilter[]> {
  const { rows } = await tx.query<CoveredFilter & { [column: string]: unknown }>(
    'select filter, contract, event, name, selection from chain_filter where chain = $1 order by place',
    [chain],
  )
  return rows
}

/** Replaces them all; gaps of those that are gone go with them. */
export async function putCovered(tx: Tx, chain: ChainKey, filters: readonly CoveredFilter[]): Promise<void> {
  await tx.query(
    'delete from backfill_ranges where chain = $1 and filter in (select filter from chain_filter where chain = $1) and not filter = any($2)',
    [chain, filters.map(({ filter }) => filter)],
  )
  await tx.query('delete from chain_filter where chain = $1', [chain])
  await tx.query(PUT_COVERED, [
    chain,
    filters.map(({ filter }) => filter),
    filters.map(({ contract }) => contract),
    filters.map(({ event }) => event),
    filters.map(({ name }) => name),
    filters.map(({ selection }) => JSON.stringify(selection)),
  ])
}

const PUT_COVERED = `
  insert into chain_filter (chain, filter, place, contract, event, name, selection)
  select $1, filter, place, contract, event, name, selection
  from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::jsonb[]) with ordinality
    as wanted (filter, contract, event, name, selection, place)`

/** Lowest first. */
export async function readGaps(tx: Tx, chain: ChainKey): Promise<Gap[]> {
  const { rows } = await tx.query<{ filter: string; from_height: Height; to_height: Height }>(
    `select filter, from_height, to_height from backfill_ranges join chain_filter using (chain, filter)
     where chain = $1 and status = 'pending' order by from_height, place`,
    [chain],
  )
  return rows.map((row) => ({ filter: row.filter, from: row.from_height, to: row.to_height }))
}

export async function putGaps(tx: Tx, chain: ChainKey, gaps: readonly Gap[]): Promise<void> {
  await tx.query(
    `delete from backfill_ranges where chain = $1 and filter in (select filter from chain_filter where chain = $1)`,
    [chain],
  )
  await tx.query(
    `insert into backfill_ranges (chain, filter, from_height, to_height, status)
     select $1, *, 'pending' from unnest($2::text[], $3::bigint[], $4::bigint[])`,
    [chain, gaps.map(({ filter }) => filter), gaps.map(({ from }) => from), gaps.map(({ to }) => to)],
  )
}

export const openGaps = (
  gaps: readonly Gap[],
  filters: readonly CoveredFilter[],
  from: number,
  to: number,
): Gap[] =>
  filters.reduce<Gap[]>(
    (open, { filter }) => openGap(open, { filter, from: from as Height, to: to as Height }),
    [...gaps],
  )

/** A gap as people read it. */
export interface GapInWords {
  readonly chain: ChainKey
  /** `contract event` of the filters that miss these heights. */
  readonly what: readonly string[]
  readonly from: Height
  readonly to: Height
}

/** All chains', those of the same heights together. */
export async function readGapsInWords(tx: Tx): Promise<GapInWords[]> {
  const { rows } = await tx.query<{
    chain: ChainKey
    what: string[]
    from_height: Height
    to_height: Height
  }>(
    `select chain, from_height, to_height, array_agg(trim(contract || ' ' || event) order by place) as what
     from backfill_ranges join chain_filter using (chain, filter) where status = 'pending'
     group by chain, from_height, to_height order by chain, from_height, to_height`,
  )
  return rows.map((row) => ({ chain: row.chain, what: row.what, from: row.from_height, to: row.to_height }))
}
