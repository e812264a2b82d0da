import type { ChainKey } from '@lockstep/domain'
import type { Database, Tx } from './database.js'

/** A lease that was taken, and the fencing token that proves it: it rises with each holder. */
export interface HeldLease {
  readonly name: string
  readonly holder: string
  readonly token: number
}

/** Who has a lease that was not to be had. */
export interface LeaseTaken {
  readonly holder: string
  readonly sinceSeconds: number
  readonly freeInSeconds: number
}

export const chainLease = (chain: ChainKey): string => `chain:${chain}`

export const COORDINATOR_LEASE = 'coordinator'

/** Takes the lease `name` if it is free, for `timeMs` from now by the database's clock. */
export async function acquireLease(
  db: Database,
  name: string,
  timeMs: number,
): Promise<HeldLease | LeaseTaken> {
  return db.transaction(async (tx) => {
    await tx.query('insert into lease (name) values ($1) on conflict do nothing', [name])
    return takeLease(tx, db.holder, name, timeMs)
  })
}

/**
 * Takes the right to write a chain. The checkpoint row is locked *first*, which waits for a write in flight; then, in
 * a later statement, the lease by compare-and-set on its end, since it may have been renewed meanwhile; then token and
 * holder go into the checkpoint row. Without that last step a sleeper's compare-and-set would still pass.
 */
export async function acquireChainLease(
  db: Database,
  chain: ChainKey,
  timeMs: number,
): Promise<HeldLease | LeaseTaken> {
  const name = chainLease(chain)
  // A look without a lock first: polling for a lease must not queue behind the holder's writes.
  const taken = await db.transaction((tx) => readTaken(tx, name))
  if (taken !== null) return taken
  return db.transaction(async (tx) => {
    const { rowCount } = await tx.query('select from checkpoint where chain = $1 for update', [chain])
    // Not registered yet. It may be by the next statement, and then the lease would be taken without the lock.
    if (rowCount === 0) return NOBODY
    const lease = await takeLease(tx, db.holder, name, timeMs)
    if ('token' in lease) {
      await tx.query('update checkpoint set token = $2, holder = $3 where chain = $1', [
        chain,
        lease.token,
        lease.holder,
      ])
    }
    return lease
  })
}

const TAKE_LEASE = `
  update lease set holder = $2, token = token + 1, acquired_at = clock_timestamp(),
    expires_at = clock_timestamp() + $3 * interval '1 millisecond'
  where name = $1 and (expires_at is null or expires_at <= clock_timestamp())
  returning token`

async function takeLease(
  tx: Tx,
  holder: string,
  name: string,
  timeMs: number,
): Promise<HeldLease | LeaseTaken> {
  const { rows } = await tx.query<{ token: number }>(TAKE_LEASE, [name, holder, timeMs])
  if (rows[0]) return { name, holder, token: rows[0].token }
  return (await readTaken(tx, name)) ?? NOBODY
}

/** It could not be had, and is free by now. */
const NOBODY: LeaseTaken = { holder: 'nobody', sinceSeconds: 0, freeInSeconds: 0 }

const READ_TAKEN = `
  select holder, extract(epoch from clock_timestamp() - acquired_at)::float8 as since,
    extract(epoch from expires_at - clock_timestamp())::float8 as free_in
  from lease where name = $1 and expires_at > clock_timestamp()`

/** Null: the lease is free. */
async function readTaken(tx: Tx, name: string): Promise<LeaseTaken | null> {
  const { rows } = await tx.query<{ holder: string; since: number; free_in: number }>(READ_TAKEN, [name])
  const row = rows[0]
  return row ? { holder: row.holder, sinceSeconds: row.since, freeInSeconds: row.free_in } : null
}

/** @returns false where another holder has it now, or it has ended: then it is not prolonged */
export async function renewLease(db: Database, lease: HeldLease, timeMs: number): Promise<boolean> {
  const { rowCount } = await db.transaction((tx) =>
    tx.query(
      `update lease set expires_at = clock_timestamp() + $4 * interval '1 millisecond'
       where name = $1 and holder = $2 and token = $3 and expires_at > clock_timestamp()`,
      [lease.name, lease.holder, lease.token, timeMs],
    ),
  )
  return rowCount === 1
}

/** Gives a lease back, so that the next holder need not wait for its end. Does nothing where it is not ours any more. */
export async function surrenderLease(db: Database, lease: HeldLease): Promise<void> {
  await db.transaction((tx) =>
    tx.query(
      'update lease set holder = null, expires_at = null where name = $1 and holder = $2 and token = $3',
      [lease.name, lease.holder, lease.token],
    ),
  )
}

/** Gives back whatever `holder` has: for a process that is known to have ended. */
export async function surrenderLeasesOf(db: Database, holder: string): Promise<number> {
  const { rowCount } = await db.transaction((tx) =>
    tx.query('update lease set holder = null, expires_at = null where holder = $1', [holder]),
  )
  return rowCount ?? 0
}

/** Chains whose lease nobody holds now. */
export async function readFreeChains(tx: Tx): Promise<ChainKey[]> {
  const { rows } = await tx.query<{ chain: ChainKey }>(
    `select c.chain from chain c left join lease l on l.name = 'chain:' || c.chain
     where l.expires_at is null or l.expires_at <= clock_timestamp() order by c.chain`,
  )
  return rows.map((row) => row.chain)
}
