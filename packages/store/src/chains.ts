import type { ChainOptions } from '@lockstep/config'
import { ChainChangedError, type ChainKey, type Height } from '@lockstep/domain'
import { type ChainWriter, setCheckpoint } from './checkpoint.js'
import type { Database, Tx } from './database.js'
import { chainLease } from './lease.js'
import { lockKeyShared, refuseDuringRewind } from './write-key.js'

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
 * settings while it holds anything (its worker then stops, see `chainChangedError`), and takes the new ones while it is empty.
 * Part of `lockstep migrate`: it needs the role that owns the tables.
 */
export async function registerChains(db: Database, chains: readonly ChainOptions[]): Promise<void> {
  for (const chain of chains) {
    await db.transaction(async (tx) => {
      await tx.query('select from checkpoint where chain = $1 for update', [chain.chain])
      const { rowCount } = await putSettings(tx, chain)
      await tx.query(KEEP_ORPHANS, [chain.chain, chain.keepOrphans])
      await tx.query('insert into checkpoint (chain) values ($1) on conflict do nothing', [chain.chain])
      // A worker that still runs with the old settings must not store a first block under the new ones.
      if (rowCount === 1)
        await tx.query('update checkpoint set token = token + 1, holder = null where chain = $1', [
          chain.chain,
        ])
      await tx.query('insert into lease (name) values ($1) on conflict do nothing', [chainLease(chain.chain)])
      await tx.query('select create_event_partition($1)', [chain.chain])
    })
  }
}

/** The worker's own way to the same: a chain that a rewind has emptied takes the settings of the config. */
export async function adoptSettings(db: Database, writer: ChainWriter, chain: ChainOptions): Promise<void> {
  await db.transaction(async (tx) => {
    await lockKeyShared(tx)
    await refuseDuringRewind(tx)
    await setCheckpoint(tx, writer, null)
    await putSettings(tx, chain)
  })
}

const putSettings = (tx: Tx, { chain, kind, chainId, startHeight, filterDigest }: ChainOptions) =>
  tx.query(REGISTER, [chain, kind, chainId, startHeight, filterDigest])

/** The settings follow the config only while the chain is empty: looked at under the lock of its checkpoint. */
const REGISTER = `
  insert into chain as c (chain, kind, chain_id, start_height, filter_digest) values ($1, $2, $3, $4, $5)
  on conflict (chain) do update set kind = excluded.kind, chain_id = excluded.chain_id,
    start_height = excluded.start_height, filter_digest = excluded.filter_digest
  where (c.kind, c.chain_id, c.start_height, c.filter_digest)
      is distinct from (excluded.kind, excluded.chain_id, excluded.start_height, excluded.filter_digest)
    and exists (select from checkpoint where chain = c.chain and height is null)`

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

/** Whether a chain's facts were indexed under other settings than the config has. */
export const chainChanged = (stored: RegisteredChain, configured: ChainOptions): boolean =>
  settings(stored, configured).some(({ was, is }) => was !== is)

/** A chain goes on only under the settings of its facts: else its tables would not be what a fresh index holds. */
export function chainChangedError(stored: RegisteredChain, configured: ChainOptions): ChainChangedError {
  const changed = settings(stored, configured).filter(({ was, is }) => was !== is)
  const list = (side: 'was' | 'is') => changed.map((each) => each[side]).join(', ')
  return new ChainChangedError(
    configured.chain,
    changed.map(({ name }) => name).join(', '),
    list('was'),
    list('is'),
  )
}

function settings(
  stored: RegisteredChain,
  configured: ChainOptions,
): { name: string; was: string; is: string }[] {
  return [
    { name: 'kind', was: stored.kind, is: configured.kind },
    { name: 'chainId', was: stored.chainId, is: configured.chainId },
    { name: 'startHeight', was: String(stored.startHeight), is: String(configured.startHeight) },
    {
      name: 'contracts, events or blocks (digest)',
      was: stored.filterDigest.slice(0, 12),
      is: configured.filterDigest.slice(0, 12),
    },
  ]
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
