import type { ChainOptions } from '@lockstep/config'
import type { ChainKey, Height } from '@lockstep/domain'
import { readCheckpoint } from './checkpoint.js'
import { changeOf, wantedFilters } from './config-change.js'
import { putCovered, readCovered } from './covered-filters.js'
import type { Database, Tx } from './database.js'
import { chainLease } from './lease.js'

export interface RegisteredChain {
  readonly chain: ChainKey
  readonly kind: 'evm' | 'cosmos'
  readonly chainId: string
  readonly startHeight: Height
  readonly filterDigest: string
  readonly timesFell: boolean
}

/**
 * Makes room for the chains of the config: partition, checkpoint, lease. A chain that is there already keeps its
 * settings while it holds anything (its worker takes over a changed config, see `adoptConfig`), and takes the new ones
 * while it is empty. Part of `lockstep migrate`: it needs the role that owns the tables.
 */
export async function registerChains(db: Database, chains: readonly ChainOptions[]): Promise<void> {
  for (const chain of chains) {
    await db.transaction(async (tx) => {
      const took = (await registerNew(tx, chain)) || (await followWhileEmpty(tx, chain))
      await tx.query(KEEP_ORPHANS, [chain.chain, chain.keepOrphans])
      await tx.query('insert into checkpoint (chain) values ($1) on conflict do nothing', [chain.chain])
      if (took) await putCovered(tx, chain.chain, wantedFilters(chain))
      await tx.query('insert into lease (name) values ($1) on conflict do nothing', [chainLease(chain.chain)])
      await tx.query('select create_event_partition($1)', [chain.chain])
    })
  }
}

/** Waits for another process that registers the same chain. */
async function registerNew(tx: Tx, options: ChainOptions): Promise<boolean> {
  const { rowCount } = await tx.query(`${INSERT_SETTINGS} on conflict do nothing`, settingsOf(options))
  return rowCount === 1
}

/** The settings follow the config only while the chain is empty: looked at under the lock of its checkpoint. */
async function followWhileEmpty(tx: Tx, options: ChainOptions): Promise<boolean> {
  const { chain } = options
  await tx.query('select from checkpoint where chain = $1 for update', [chain])
  if ((await readCheckpoint(tx, chain)) !== null) return false
  const registered = await readChain(tx, chain)
  const unchanged =
    registered !== null && changeOf(registered, await readCovered(tx, chain), options) === null
  if (unchanged) return false
  await writeSettings(tx, options)
  // A worker that still runs with the old settings must not store a first block under the new ones.
  await tx.query('update checkpoint set token = token + 1, holder = null where chain = $1', [chain])
  return true
}

/** What the facts of a chain are indexed under, apart from its filters. */
export async function writeSettings(tx: Tx, options: ChainOptions): Promise<void> {
  await tx.query(
    `${INSERT_SETTINGS} on conflict (chain) do update set kind = excluded.kind, chain_id = excluded.chain_id,
       start_height = excluded.start_height, filter_digest = excluded.filter_digest`,
    settingsOf(options),
  )
}

const INSERT_SETTINGS = `
  insert into chain (chain, kind, chain_id, start_height, filter_digest) values ($1, $2, $3, $4, $5)`

const settingsOf = ({ chain, kind, chainId, startHeight, filterDigest }: ChainOptions): unknown[] => [
  chain,
  kind,
  chainId,
  startHeight,
  filterDigest,
]

/** Decides no fact, so it follows the config always. */
const KEEP_ORPHANS = 'update chain set keep_orphans = $2 where chain = $1 and keep_orphans <> $2'

export async function readChains(tx: Tx): Promise<RegisteredChain[]> {
  const { rows } = await tx.query<ChainRow>('select * from chain order by chain')
  return rows.map(parseChain)
}

export async function readChain(tx: Tx, chain: ChainKey): Promise<RegisteredChain | null> {
  const { rows } = await tx.query<ChainRow>('select * from chain where chain = $1', [chain])
  return rows[0] ? parseChain(rows[0]) : null
}

interface ChainRow {
  chain: ChainKey
  kind: 'evm' | 'cosmos'
  chain_id: string
  start_height: number
  filter_digest: string
  times_fell: boolean
}

const parseChain = (row: ChainRow): RegisteredChain => ({
  chain: row.chain,
  kind: row.kind,
  chainId: row.chain_id,
  startHeight: row.start_height as Height,
  filterDigest: row.filter_digest,
  timesFell: row.times_fell,
})
