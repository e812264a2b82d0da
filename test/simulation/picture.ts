import { type ChainKey, type Hex, parseTime, type TimeUs } from '@lockstep/domain'
import type { SimulatedServer } from './simulated-server.js'

export interface StoredBlock {
  readonly height: number
  readonly hash: Hex
  readonly time: TimeUs
  /** Of a block that is a fact. */
  readonly events: number
}

/** One chain's rows, all of one moment. */
export interface ChainPicture {
  readonly checkpoint: { readonly height: number; readonly hash: Hex; readonly time: TimeUs } | null
  readonly leaseHolder: string | null
  readonly blocks: readonly StoredBlock[]
  readonly headers: readonly StoredBlock[]
  /** What readers see. */
  readonly visible: ReadonlySet<string>
  readonly visibleEvents: number
  readonly published: number | null
  /** Its own row of a running rewind. */
  readonly own: { readonly from: number | null; readonly generation: number } | null
}

/** All that the promises speak of, read in one statement. */
export interface Picture {
  readonly lock: { readonly rewindId: string; readonly timestamp: TimeUs } | null
  readonly paused: boolean
  readonly epoch: number
  readonly chains: ReadonlyMap<ChainKey, ChainPicture>
  /** Rewinds that are neither finished nor cancelled. */
  readonly openRewinds: readonly string[]
  readonly cancelled: ReadonlySet<string>
  /** Rewinds in which a chain has moved its checkpoint or removed anything. */
  readonly moved: ReadonlySet<string>
}

const US = (column: string) => `(extract(epoch from ${column}) * 1000000)::bigint::text`

const PICTURE = `
  select jsonb_build_object(
    'global', (select jsonb_object_agg(key, value) from _global),
    'rewinds', coalesce((select jsonb_agg(jsonb_build_object('id', id, 'finished', finished_at is not null,
      'cancelled', cancelled_at is not null, 'moved', exists (select from rewind_chain where rewind_id = id
        and (checkpoint_before is distinct from cut or blocks_removed + events_removed > 0)))) from rewind), '[]'),
    'chains', coalesce((select jsonb_agg(jsonb_build_object(
      'chain', c.chain, 'height', c.height, 'hash', encode(c.hash, 'hex'), 'time', ${US('c.block_time')},
      'holder', (select holder from lease where name = 'chain:' || c.chain),
      'published', (select height from indexed.status s where s.chain = c.chain),
      'blocks', (select jsonb_agg(jsonb_build_array(height, encode(hash, 'hex'), ${US('block_time')},
        (select count(*) from event e where e.chain = b.chain and e.height = b.height and e.block_hash = b.hash
          and e.block_time = b.block_time))) from block b where b.chain = c.chain),
      'events', (select count(*) from event e where e.chain = c.chain),
      'headers', (select jsonb_agg(jsonb_build_array(height, encode(hash, 'hex'), ${US('block_time')}, 0))
        from header h where h.chain = c.chain),
      'visible', (select jsonb_agg(encode(hash, 'hex')) from indexed.blocks b where b.chain = c.chain),
      'visibleEvents', (select jsonb_agg(encode(block_hash, 'hex')) from indexed.events e where e.chain = c.chain)
    )) from checkpoint c), '[]')) as picture`

interface RawChain {
  chain: ChainKey
  height: number | null
  hash: string
  time: string
  holder: string | null
  published: number | null
  blocks: [number, string, string, number][] | null
  events: number
  headers: [number, string, string, number][] | null
  visible: string[] | null
  visibleEvents: string[] | null
}

interface RawPicture {
  global: Record<string, { rewindId?: string; timestamp?: string; from?: number | null; generation?: number }>
  rewinds: { id: string; finished: boolean; cancelled: boolean; moved: boolean }[]
  chains: RawChain[]
}

export class BrokenPicture extends Error {}

export async function takePicture(server: SimulatedServer): Promise<Picture> {
  const { rows } = await server.observer.query<{ picture: RawPicture }>({ name: 'picture', text: PICTURE })
  const { global, rewinds, chains } = (rows as [{ picture: RawPicture }])[0].picture
  const lock = global.rewind_lock
  return {
    lock: lock
      ? { rewindId: String(lock.rewindId), timestamp: parseTime(String(lock.timestamp)) as TimeUs }
      : null,
    paused: global.pause !== undefined,
    epoch: Number(global.epoch),
    chains: new Map(
      chains.map((raw) => [raw.chain, parseChain(raw, global[`rewind_timestamp_${raw.chain}`])]),
    ),
    openRewinds: rewinds.filter((each) => !each.finished && !each.cancelled).map((each) => each.id),
    cancelled: new Set(rewinds.filter((each) => each.cancelled).map((each) => each.id)),
    moved: new Set(rewinds.filter((each) => each.moved).map((each) => each.id)),
  }
}

function parseChain(raw: RawChain, own: RawPicture['global'][string] | undefined): ChainPicture {
  const blocks = (raw.blocks ?? []).map(parseStored)
  const events = blocks.reduce((sum, block) => sum + block.events, 0)
  if (events !== raw.events) throw new BrokenPicture(`${raw.chain} holds events without their block`)
  return {
    checkpoint:
      raw.height === null
        ? null
        : { height: raw.height, hash: `0x${raw.hash}`, time: BigInt(raw.time) as TimeUs },
    leaseHolder: raw.holder,
    blocks,
    headers: (raw.headers ?? []).map(parseStored),
    visible: new Set((raw.visible ?? []).map((hash) => `0x${hash}`)),
    visibleEvents: raw.visibleEvents?.length ?? 0,
    published: raw.published,
    own: own ? { from: own.from ?? null, generation: Number(own.generation) } : null,
  }
}

const parseStored = ([height, hash, time, events]: [number, string, string, number]): StoredBlock => ({
  height,
  hash: `0x${hash}`,
  time: BigInt(time) as TimeUs,
  events,
})
