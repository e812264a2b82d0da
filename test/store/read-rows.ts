import pg from 'pg'

/** Runs SQL as a stranger would: on a connection of its own, in the given schema, in UTC. */
export async function readRows<Row = Record<string, unknown>>(
  { url, schema }: { readonly url: string; readonly schema: string },
  sql: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {}) // the query under way rejects as well
  await client.connect()
  try {
    await client.query(`set search_path to "${schema}"; set time zone 'UTC'`)
    return (await client.query(sql, [...values])).rows as Row[]
  } finally {
    await client.end()
  }
}

/** Every row of every table of the schema as text, in an order that does not depend on how it was written. */
export async function readEverything(
  place: { readonly url: string; readonly schema: string },
  tables?: readonly string[],
): Promise<Record<string, string[]>> {
  const found = await readRows<{ table: string }>(
    place,
    `select relname as table from pg_class
     where relnamespace = $1::regnamespace and relkind in ('r', 'p') and not relispartition order by relname`,
    [place.schema],
  )
  const everything: Record<string, string[]> = {}
  for (const { table } of found.filter((each) => tables?.includes(each.table) ?? true)) {
    const rows = await readRows<{ row: string }>(place, `select t::text as row from "${table}" t`)
    everything[table] = rows.map(({ row }) => row).sort()
  }
  return everything
}

/** What the chains hold: facts, headers, and how far they are. */
export const CHAIN_TABLES = [
  'block',
  'event',
  'transaction',
  'header',
  'checkpoint',
  'backfill_ranges',
] as const

/** Heights of the stored blocks of a chain, facts and headers together. */
export async function storedHeights(
  place: { readonly url: string; readonly schema: string },
  chain: string,
): Promise<number[]> {
  const rows = await readRows<{ height: string }>(
    place,
    `select height from block where chain = $1 union all select height from header where chain = $1 order by height`,
    [chain],
  )
  return rows.map((row) => Number(row.height))
}

/** `checkpoint` of a chain: its height, null before the start. */
export async function checkpointHeight(
  place: { readonly url: string; readonly schema: string },
  chain: string,
): Promise<number | null> {
  const [row] = await readRows<{ height: string | null }>(
    place,
    'select height from checkpoint where chain = $1',
    [chain],
  )
  return row?.height == null ? null : Number(row.height)
}

/** Keys of `_global`, sorted: what of a rewind is still going on. */
export async function globalKeys(place: {
  readonly url: string
  readonly schema: string
}): Promise<string[]> {
  const rows = await readRows<{ key: string }>(place, 'select key from _global order by key collate "C"')
  return rows.map(({ key }) => key)
}
