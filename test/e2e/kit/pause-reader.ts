import pg from 'pg'

/** One chain at one moment of a rewind. */
export interface Sample {
  readonly chain: string
  /** Its `rewind_timestamp_` row is still there. */
  readonly waiting: boolean
  readonly events: number
  readonly blocks: number
  readonly checkpoint: number | null
  /** Rows (events, blocks, headers) with a block time after the rewind's. */
  readonly late: number
}

export interface PauseReader {
  /** One entry per look, of those looks that met a running rewind. */
  readonly looks: readonly (readonly Sample[])[]
  stop(): Promise<void>
}

/** One statement, so one snapshot: what any reader of the database may see while a rewind runs. */
const LOOK = `
  select c.chain,
    exists (select from _global where key = 'rewind_timestamp_' || c.chain) as waiting,
    (select count(*)::int from event where chain = c.chain) as events,
    (select count(*)::int from block where chain = c.chain) as blocks,
    (select height::int from checkpoint where chain = c.chain) as checkpoint,
    (select count(*)::int from event where chain = c.chain and block_time > t.time)
      + (select count(*)::int from block where chain = c.chain and block_time > t.time)
      + (select count(*)::int from header where chain = c.chain and block_time > t.time) as late
  from chain c,
    (select (value ->> 'timestamp')::timestamptz as time from _global where key = 'rewind_lock') t
  order by c.chain`

/** Reads again and again on a connection of its own, as fast as the database answers. */
export async function readPauses(url: string): Promise<PauseReader> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  await client.query('set search_path to lockstep')
  const looks: Sample[][] = []
  let stopped = false
  const running = (async () => {
    while (!stopped) {
      const { rows } = await client.query<Sample>(LOOK)
      if (rows.length > 0) looks.push(rows)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  })()
  return {
    looks,
    stop: async () => {
      stopped = true
      await running.finally(() => client.end())
    },
  }
}
