import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { ChainName, SimulatedChains } from './simulated-chains.js'

/** What one statement saw of one chain in the read schema. */
interface Seen {
  readonly chain: ChainName
  readonly epoch: number
  /** The published height. */
  readonly height: number | null
  readonly rewinding: boolean
  readonly blockHeight: number | null
  readonly eventHeight: number | null
  readonly events: number
  /** Rows with a block time after the moment of the rewind that runs, or that is held. */
  readonly late: number
  /** There is such a moment. */
  readonly bound: boolean
}

export interface ViewReader {
  /** What no reader may see; each as a sentence. */
  readonly broken: readonly string[]
  /** How many statements there were in all, while a rewind bound the chains, and while some chains were back and some not. */
  readonly looks: { all: number; bound: number; mixed: number }
  stop(): Promise<void>
}

/** One statement, so one snapshot. The moment is the running rewind's, or that of the one after which all is held. */
const PICTURE = `
  with moment as (select coalesce(
    (select (value ->> 'timestamp')::timestamptz from lockstep._global where key = 'rewind_lock'),
    (select r."timestamp" from lockstep._global g join lockstep.rewind r on r.id = (g.value ->> 'rewindId')::uuid
      where g.key = 'pause')) as time)
  select s.chain, s.epoch::int as epoch, s.height::int as height, s.rewinding, m.time is not null as bound,
    (select max(b.height)::int from lockstep_views.blocks b where b.chain = s.chain) as "blockHeight",
    (select max(e.height)::int from lockstep_views.events e where e.chain = s.chain) as "eventHeight",
    (select count(*)::int from lockstep_views.events e where e.chain = s.chain) as events,
    (select count(*)::int from lockstep_views.blocks b where b.chain = s.chain and b.block_time > m.time)
      + (select count(*)::int from lockstep_views.events e where e.chain = s.chain and e.block_time > m.time) as late
  from lockstep_views.status s, moment m order by s.chain`

/** Two statements that belong together where their epochs are equal: heights first, then rows up to them. */
const HEIGHTS =
  'select chain, epoch::int as epoch, height::int as height from lockstep_views.status order by chain'
const ROWS_UP_TO = `
  select s.chain, s.epoch::int as epoch, (select count(*)::int from lockstep_views.events e
    where e.chain = s.chain and e.height <= ($1::jsonb ->> s.chain)::bigint) as events
  from lockstep_views.status s order by s.chain`

/** Enough for the workers, whom a reader without a rest would slow down on a small machine. */
const PAUSE_MS = 10

/** Reads again and again, on a connection of its own, and judges each answer. */
export async function readViews(url: string, world: SimulatedChains): Promise<ViewReader> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {}) // the query under way rejects as well
  await client.connect()
  const broken: string[] = []
  const looks = { all: 0, bound: 0, mixed: 0 }
  let last: readonly Seen[] = []
  let stopped = false
  const running = (async () => {
    while (!stopped) {
      const { rows } = await client.query<Seen>(PICTURE)
      looks.all += 1
      if (rows[0]?.bound) looks.bound += 1
      if (new Set(rows.map(({ rewinding }) => rewinding)).size === 2) looks.mixed += 1
      broken.push(...judgePicture(rows, world), ...judgeSuccession(last, rows))
      last = rows
      broken.push(...(await readPair(client, world)))
      await sleep(PAUSE_MS)
    }
  })()
  return {
    broken,
    looks,
    stop: async () => {
      stopped = true
      await running.finally(() => client.end())
    },
  }
}

function judgePicture(rows: readonly Seen[], world: SimulatedChains): string[] {
  return rows.flatMap((row) => {
    const { chain, height, events, late } = row
    const above = Math.max(row.blockHeight ?? -1, row.eventHeight ?? -1)
    const whole = height === null ? 0 : world.eventsUpTo(chain, height)
    return [
      ...(late > 0 ? [`${chain} shows ${late} rows after the moment, in one statement with the rewind`] : []),
      ...(above > (height ?? -1)
        ? [`${chain} shows block ${above} above its published height ${height}`]
        : []),
      ...(events !== whole ? [`${chain} shows ${events} events up to ${height}, not ${whole}`] : []),
    ]
  })
}

/**
 * No row goes within one epoch. A published height may: in a rewind it is at first the one below the lowest stored
 * block that goes, and then that of the exact cut, between which nothing is stored.
 */
function judgeSuccession(before: readonly Seen[], now: readonly Seen[]): string[] {
  return now.flatMap(({ chain, epoch, events }) => {
    const earlier = before.find((each) => each.chain === chain)
    if (earlier === undefined || earlier.epoch !== epoch || events >= earlier.events) return []
    return [`${chain} went from ${earlier.events} events to ${events} within epoch ${epoch}`]
  })
}

async function readPair(client: pg.Client, world: SimulatedChains): Promise<string[]> {
  const first = (await client.query<{ chain: ChainName; epoch: number; height: number | null }>(HEIGHTS)).rows
  const heights = Object.fromEntries(first.map(({ chain, height }) => [chain, height ?? -1]))
  const { rows } = await client.query<{ chain: ChainName; epoch: number; events: number }>(ROWS_UP_TO, [
    JSON.stringify(heights),
  ])
  return rows.flatMap(({ chain, epoch, events }) => {
    if (first.find((each) => each.chain === chain)?.epoch !== epoch) return []
    const whole = world.eventsUpTo(chain, heights[chain] ?? -1)
    if (events === whole) return []
    return [
      `${chain} has ${events} events up to ${heights[chain]} in a second statement of epoch ${epoch}, not ${whole}`,
    ]
  })
}
