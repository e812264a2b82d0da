import type { ChainKey, Height } from '@lockstep/domain'
import type { Database, Tx } from './database.js'

/*
 * What a fork took off its chain, kept for investigation where `keepOrphans` asks for it. Kept in the transaction that
 * removes it, by whoever carries that out; so the setting stands in the chain's row, not in a config that only its worker
 * has. What an operator's rewind removes is still on its chain, and is not kept.
 */

/** What took it off. */
export type OrphanedBy = { readonly rollbackId: number } | { readonly rewindId: string }

/** Keeps the events from `from` on that are about to be removed, where the chain's setting asks for it. */
export async function keepOrphans(tx: Tx, chain: ChainKey, from: Height, by: OrphanedBy): Promise<void> {
  await tx.query(KEEP, [
    chain,
    from,
    'rollbackId' in by ? by.rollbackId : null,
    'rewindId' in by ? by.rewindId : null,
  ])
}

const KEEP = `
  insert into orphaned_event (chain, height, tx_index, event_index, tx_hash, block_hash, block_time, contract, address,
    name, args, topic0, topic1, topic2, topic3, data, undecoded, rollback_id, rewind_id)
  select chain, height, tx_index, event_index, tx_hash, block_hash, block_time, contract, address, name, args, topic0,
    topic1, topic2, topic3, data, undecoded, $3::bigint, $4::uuid
  from event where chain = $1 and height >= $2 and (select keep_orphans from chain where chain = $1)
  order by height, tx_index, event_index`

/** The setting follows the config at each start; it decides no fact, so no lock goes with it. */
export async function setKeepOrphans(db: Database, chain: ChainKey, keep: boolean): Promise<void> {
  await db.transaction((tx) =>
    tx.query('update chain set keep_orphans = $2 where chain = $1 and keep_orphans <> $2', [chain, keep]),
  )
}
