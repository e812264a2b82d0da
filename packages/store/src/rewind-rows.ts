import {
  type ChainKey,
  formatTime,
  type Height,
  type Hex,
  invariant,
  parseTime,
  type TimeUs,
} from '@lockstep/domain'
import type { Tx } from './database.js'
import type { Notice } from './listener.js'
import { notifyChannel } from './names.js'

/*
 * The rows of `_global` that the rewind protocol lives in (docs/design.md, section 2). Lock order: the write key, a
 * checkpoint row, then `rewind_lock`, then `rewind_timestamp_…` rows, then `epoch` as the last statement.
 */

/** `rewind_lock`: there while a rewind runs. */
export interface RewindLock {
  readonly rewindId: string
  readonly timestamp: TimeUs
}

/** `rewind_timestamp_<chain>`: there while that chain has still to rewind. */
export interface ChainRewind extends RewindLock {
  readonly chain: ChainKey
  /** The lowest stored height that goes; null: nothing goes. */
  readonly from: Height | null
  /**
   * The lowest height that a fork of this chain took off it; null: no fork asked. What goes below it goes for the
   * rewind's time alone, and is still on the chain.
   */
  readonly forkFrom: Height | null
  /** What the coordinator's search over RPC found; never decides what is removed. */
  readonly cutHint: CutHint | null
  /** Rises with each change of time, `from` or `forkFrom`, also where the row was gone in between. Not with `cutHint`. */
  readonly generation: number
}

export interface CutHint {
  readonly height: Height
  readonly hash: Hex
  readonly time: TimeUs
}

/** `pause`: there while an operator holds everything. */
export interface Pause {
  readonly who: string
  readonly reason: string | null
  readonly since: TimeUs
  /** The rewind it was set with (`--hold`); null: it stands on its own. */
  readonly rewindId: string | null
}

/** All that a process needs to know of rewinds and pauses, of one moment. */
export interface RewindState {
  readonly lock: RewindLock | null
  readonly pause: Pause | null
  /** Chains that have still to rewind. */
  readonly waitingFor: readonly ChainRewind[]
  readonly epoch: number
}

const CHAIN_ROW = 'rewind_timestamp_'
const chainRow = (chain: ChainKey): string => `${CHAIN_ROW}${chain}`

export async function readRewindState(tx: Tx): Promise<RewindState> {
  const { rows } = await tx.query<GlobalRow>('select key, value from _global order by key')
  const find = (key: string) => rows.find((row) => row.key === key)?.value
  const lock = find('rewind_lock')
  const pause = find('pause')
  return {
    lock: lock ? parseLock(lock) : null,
    pause: pause ? parsePause(pause) : null,
    waitingFor: rows
      .filter((row) => row.key.startsWith(CHAIN_ROW))
      .map((row) => parseChainRow(row.key, row.value)),
    epoch: Number(find('epoch') ?? 0),
  }
}

/**
 * Locks the lock's row, and so waits for a release or a request that is under way; what it returns is what is there
 * once they are done. Of a row that is not there nothing is locked: only the write key keeps two requests apart.
 */
export async function lockRewindLock(tx: Tx): Promise<RewindLock | null> {
  const { rows } = await tx.query<GlobalRow>(
    `select key, value from _global where key = 'rewind_lock' for update`,
  )
  return rows[0] ? parseLock(rows[0].value) : null
}

export async function putRewindLock(tx: Tx, lock: RewindLock): Promise<void> {
  await put(tx, 'rewind_lock', { timestamp: formatTime(lock.timestamp), rewindId: lock.rewindId })
}

/** Locks the pause's row as `lockRewindLock` does the lock's. */
export async function lockPause(tx: Tx): Promise<Pause | null> {
  const { rows } = await tx.query<GlobalRow>(`select key, value from _global where key = 'pause' for update`)
  return rows[0] ? parsePause(rows[0].value) : null
}

export async function putPause(tx: Tx, pause: Omit<Pause, 'since'>): Promise<void> {
  const { rows } = await tx.query<{ now: TimeUs }>('select clock_timestamp() as now')
  invariant(rows[0] !== undefined, 'the database has a clock')
  await put(tx, 'pause', { ...pause, since: formatTime(rows[0].now) })
}

export async function deletePause(tx: Tx): Promise<void> {
  await tx.query(`delete from _global where key = 'pause'`)
}

/** The rows of all chains: for a cancel, which holds the lock's row. */
export async function deleteAllChainRewinds(tx: Tx): Promise<void> {
  await tx.query(`delete from _global where starts_with(key, '${CHAIN_ROW}')`)
}

export async function deleteRewindLock(tx: Tx): Promise<void> {
  await tx.query(`delete from _global where key = 'rewind_lock'`)
}

export async function readChainRewind(tx: Tx, chain: ChainKey): Promise<ChainRewind | null> {
  const { rows } = await tx.query<GlobalRow>('select key, value from _global where key = $1', [
    chainRow(chain),
  ])
  return rows[0] ? parseChainRow(rows[0].key, rows[0].value) : null
}

export async function putChainRewind(tx: Tx, row: ChainRewind): Promise<void> {
  await put(tx, chainRow(row.chain), {
    timestamp: formatTime(row.timestamp),
    rewindId: row.rewindId,
    from: row.from,
    forkFrom: row.forkFrom,
    cutHint: row.cutHint && { ...row.cutHint, time: formatTime(row.cutHint.time) },
    generation: row.generation,
  })
}

/** Leaves a hint for a chain that has not rewound yet; a row that was changed or done meanwhile is left alone. */
export async function putCutHint(tx: Tx, row: ChainRewind, hint: CutHint): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update _global set value = jsonb_set(value, '{cutHint}', $4::jsonb), "updatedAt" = clock_timestamp()
     where key = $1 and value ->> 'rewindId' = $2 and (value ->> 'generation')::bigint = $3`,
    [
      chainRow(row.chain),
      row.rewindId,
      row.generation,
      JSON.stringify({ ...hint, time: formatTime(hint.time) }),
    ],
  )
  return rowCount === 1
}

/** @returns false where the row is not the one that was read at the start: the rewind was changed meanwhile */
export async function deleteChainRewind(tx: Tx, row: ChainRewind): Promise<boolean> {
  const { rowCount } = await tx.query(
    `delete from _global where key = $1 and value ->> 'rewindId' = $2 and (value ->> 'generation')::bigint = $3`,
    [chainRow(row.chain), row.rewindId, row.generation],
  )
  return rowCount === 1
}

export async function anyRewindRowLeft(tx: Tx): Promise<boolean> {
  const { rows } = await tx.query<{ any: boolean }>(
    `select exists (select from _global where starts_with(key, '${CHAIN_ROW}')) as any`,
  )
  return rows[0]?.any === true
}

/** Raises the epoch; the last statement of its transaction, so that its row is locked as short as can be. */
export async function raiseEpoch(tx: Tx): Promise<number> {
  const { rows } = await tx.query<{ epoch: number }>(
    `update _global set value = to_jsonb((value #>> '{}')::bigint + 1), "updatedAt" = clock_timestamp()
     where key = 'epoch' returning (value #>> '{}')::bigint as epoch`,
  )
  invariant(rows[0] !== undefined, 'the epoch is always there')
  return rows[0].epoch
}

export async function readEpoch(tx: Tx): Promise<number> {
  const { rows } = await tx.query<{ epoch: number }>(
    `select (value #>> '{}')::bigint as epoch from _global where key = 'epoch'`,
  )
  invariant(rows[0] !== undefined, 'the epoch is always there')
  return rows[0].epoch
}

/** Sent at commit. A hint: who misses it finds the rows by polling. */
export async function notify(tx: Tx, notice: Notice): Promise<void> {
  await tx.query('select pg_notify($1, $2)', [notifyChannel(tx.schema), notice])
}

async function put(tx: Tx, key: string, value: unknown): Promise<void> {
  await tx.query(
    `insert into _global (key, value, "createdAt", "updatedAt") values ($1, $2, clock_timestamp(), clock_timestamp())
     on conflict (key) do update set value = excluded.value, "updatedAt" = excluded."updatedAt"`,
    [key, JSON.stringify(value)],
  )
}

interface GlobalRow {
  key: string
  value: Record<string, unknown>
}

const timeOf = (value: unknown): TimeUs => {
  const time = parseTime(String(value))
  invariant(time !== null, `_global holds a time, not ${String(value)}`)
  return time
}

const parseLock = (value: Record<string, unknown>): RewindLock => ({
  rewindId: String(value.rewindId),
  timestamp: timeOf(value.timestamp),
})

function parseChainRow(key: string, value: Record<string, unknown>): ChainRewind {
  const hint = value.cutHint as { height: Height; hash: Hex; time: string } | null | undefined
  return {
    ...parseLock(value),
    chain: key.slice(CHAIN_ROW.length) as ChainKey,
    from: value.from === null ? null : (Number(value.from) as Height),
    // Not there where a program of an earlier version asked.
    forkFrom: value.forkFrom == null ? null : (Number(value.forkFrom) as Height),
    cutHint: hint ? { height: hint.height, hash: hint.hash, time: timeOf(hint.time) } : null,
    generation: Number(value.generation),
  }
}

const parsePause = (value: Record<string, unknown>): Pause => ({
  who: String(value.who),
  reason: value.reason === null || value.reason === undefined ? null : String(value.reason),
  since: timeOf(value.since),
  rewindId: value.rewindId === null || value.rewindId === undefined ? null : String(value.rewindId),
})
