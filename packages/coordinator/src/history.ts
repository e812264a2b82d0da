import { type ChainKey, RequestRefusedError } from '@lockstep/domain'
import {
  type Database,
  findRewinds,
  type RewindChainRecord,
  type RewindRecord,
  type RollbackRecord,
  readRewindChains,
  readRewinds,
  readRollbacks,
} from '@lockstep/store'

/** One rewind of the audit, with what each chain did in it. */
export interface RewindHistory {
  readonly rewind: RewindRecord
  readonly chains: readonly RewindChainRecord[]
}

/** Newest first. */
export async function readHistory(db: Database, limit: number): Promise<RewindHistory[]> {
  return db.transaction(async (tx) => {
    const found: RewindHistory[] = []
    for (const rewind of await readRewinds(tx, limit))
      found.push({ rewind, chains: await readRewindChains(tx, rewind.id) })
    return found
  })
}

/** @throws RequestRefusedError where no rewind, or more than one, has an id that begins so */
export async function readOneRewind(db: Database, idPrefix: string): Promise<RewindHistory> {
  if (!/^[0-9a-f-]{4,36}$/i.test(idPrefix))
    throw unknown(`"${idPrefix}" is no id of a rewind: give at least its first four characters.`)
  return db.transaction(async (tx) => {
    const [rewind, second] = await findRewinds(tx, idPrefix)
    if (rewind === undefined) throw unknown(`No rewind has an id that begins with "${idPrefix}".`)
    if (second !== undefined) throw unknown(`More than one rewind has an id that begins with "${idPrefix}".`)
    return { rewind, chains: await readRewindChains(tx, rewind.id) }
  })
}

/** Rollbacks of single chains after forks, and the rewinds of all chains that forks asked for; newest first. */
export async function readForks(
  db: Database,
  chain: ChainKey | null,
  limit: number,
): Promise<{ rollbacks: RollbackRecord[]; rewinds: RewindRecord[] }> {
  return db.transaction(async (tx) => ({
    rollbacks: await readRollbacks(tx, chain, limit),
    rewinds: (await readRewinds(tx, limit)).filter(
      ({ forkedChain }) => forkedChain !== null && (chain === null || forkedChain === chain),
    ),
  }))
}

const unknown = (sentence: string): RequestRefusedError =>
  new RequestRefusedError(sentence, 'See "lockstep rewind history" for those that there are.')
