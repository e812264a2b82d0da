import { createHash } from 'node:crypto'
import { type ChainKey, type Height, invariant } from '@lockstep/domain'
import type { Database } from './database.js'

/** One table's rows of one chain, up to a height, as one number. Equal digests: equal rows, byte for byte. */
export interface TableDigest {
  readonly chain: ChainKey
  readonly table: DigestedTable
  readonly to: Height | null
  readonly rows: number
  readonly digest: string
}

export type DigestedTable = 'block' | 'event' | 'transaction' | 'contract_registry'

/** Heights per step: fixed, so that two databases with different ranges digest alike; bounds what a step holds. */
const STEP = 10_000

const TABLES = {
  block: `select convert_to(t::text, 'UTF8') as line, height as n
    from block t where chain = $1 and height between $2 and $3`,
  event: `select convert_to(t::text, 'UTF8') as line, (height, tx_index, event_index, tx_hash) as n
    from event t where chain = $1 and height between $2 and $3`,
  transaction: `select convert_to(t::text, 'UTF8') as line, (height, tx_index, tx_hash) as n
    from transaction t where chain = $1 and height between $2 and $3`,
  contract_registry: `select convert_to(t::text, 'UTF8') as line, (height, tx_index, event_index, contract, address) as n
    from contract_registry t where chain = $1 and height between $2 and $3`,
} as const

/** Digests a chain's facts up to `to` (null: none). Each step is a transaction of its own; the sum is of no one moment. */
export async function digestChain(db: Database, chain: ChainKey, to: Height | null): Promise<TableDigest[]> {
  const digests: TableDigest[] = []
  for (const table of ['block', 'event', 'transaction', 'contract_registry'] as const)
    digests.push(await digestTable(db, chain, table, to))
  return digests
}

async function digestTable(
  db: Database,
  chain: ChainKey,
  table: DigestedTable,
  to: Height | null,
): Promise<TableDigest> {
  const hash = createHash('sha256')
  let rows = 0
  for (
    let from = await firstStep(db, chain, table);
    to !== null && from !== null && from <= to;
    from += STEP
  ) {
    const step = await digestStep(db, chain, table, from, Math.min(from + STEP - 1, to))
    if (step.rows === 0) continue // so that empty stretches count for nothing
    hash.update(`${from}:${step.digest}\n`)
    rows += step.rows
  }
  return { chain, table, to, rows, digest: hash.digest('hex') }
}

async function digestStep(
  db: Database,
  chain: ChainKey,
  table: DigestedTable,
  from: number,
  to: number,
): Promise<{ rows: number; digest: string }> {
  const { rows } = await db.transaction((tx) =>
    tx.query<{ rows: number; digest: string | null }>(
      `select count(*) as rows, encode(sha256(string_agg(sha256(line), ''::bytea order by n)), 'hex') as digest
       from (${TABLES[table]}) lines`,
      [chain, from, to],
    ),
  )
  invariant(rows[0] !== undefined, 'an aggregate gives a row')
  return { rows: rows[0].rows, digest: rows[0].digest ?? '' }
}

/** The step that the table's first row is in: chains start high. */
async function firstStep(db: Database, chain: ChainKey, table: DigestedTable): Promise<number | null> {
  const { rows } = await db.transaction((tx) =>
    tx.query<{ first: number | null }>(`select min(height) as first from ${table} where chain = $1`, [chain]),
  )
  const first = rows[0]?.first ?? null
  return first === null ? null : Math.floor(first / STEP) * STEP
}
