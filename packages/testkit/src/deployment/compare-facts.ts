import pg from 'pg'

/** One deployment's tables. */
export interface Tables {
  readonly url: string
  readonly schema: string
}

export interface TableDifference {
  readonly table: string
  readonly onlyInFirst: readonly string[]
  readonly onlyInSecond: readonly string[]
}

export interface Comparison {
  /** Rows compared, by table. */
  readonly rows: Readonly<Record<string, number>>
  /** Empty: the two hold the same, byte for byte. */
  readonly differences: readonly TableDifference[]
}

/**
 * What must be equal between two indexes of the same chains (promise 1 of docs/design.md), as text of whole rows.
 * Not compared: headers, which only link, and what tells of a run (leases, audits, ranges, status).
 */
const COMPARED: Readonly<Record<string, string>> = {
  event:
    'select to_jsonb(t)::text as row from event t order by chain, height, tx_index, event_index, tx_hash',
  transaction: 'select to_jsonb(t)::text as row from transaction t order by chain, height, tx_index, tx_hash',
  block: 'select to_jsonb(t)::text as row from block t order by chain, height',
  contract_registry:
    'select to_jsonb(t)::text as row from contract_registry t order by chain, contract, address',
  checkpoint: `select jsonb_build_object('chain', chain, 'height', height, 'hash', hash, 'block_time', block_time)::text as row
    from checkpoint order by chain`,
}

/** Compares row by row. */
export async function compareFacts(first: Tables, second: Tables): Promise<Comparison> {
  const [a, b] = await Promise.all([readTables(first), readTables(second)])
  const rows: Record<string, number> = {}
  const differences: TableDifference[] = []
  for (const table of Object.keys(COMPARED)) {
    const left = a.get(table) ?? []
    const right = b.get(table) ?? []
    rows[table] = Math.max(left.length, right.length)
    const difference = { table, onlyInFirst: without(left, right), onlyInSecond: without(right, left) }
    if (difference.onlyInFirst.length + difference.onlyInSecond.length > 0) differences.push(difference)
  }
  return { rows, differences }
}

const without = (rows: readonly string[], others: readonly string[]): string[] => {
  const known = new Set(others)
  return rows.filter((row) => !known.has(row))
}

/** The compared rows of one deployment, by table. */
export async function readTables({ url, schema }: Tables): Promise<Map<string, string[]>> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {}) // the query under way rejects as well
  await client.connect()
  try {
    await client.query(`set search_path to "${schema}"; set time zone 'UTC'`)
    const tables = new Map<string, string[]>()
    for (const [table, sql] of Object.entries(COMPARED)) {
      const { rows } = await client.query<{ row: string }>(sql)
      tables.set(
        table,
        rows.map(({ row }) => row),
      )
    }
    return tables
  } finally {
    await client.end()
  }
}
