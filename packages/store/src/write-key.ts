import { WriteRefusedError } from '@lockstep/domain'
import type { Tx } from './database.js'
import { writeKey } from './names.js'

/*
 * The write key orders writes and requests. Every writer holds it shared until it commits, so a request, which takes it
 * exclusively, waits for writes in flight, and no later write can miss what the request has committed.
 *
 * A lock is taken by a statement of its own, and what it protects is read by a later one: a statement's snapshot is
 * older than its wait for a lock, so a combined statement would miss what was committed meanwhile.
 */

export async function lockKeyShared(tx: Tx): Promise<void> {
  await tx.query('select pg_advisory_xact_lock_shared($1::bigint)', [writeKey(tx.schema)])
}

export async function lockKeyExclusive(tx: Tx): Promise<void> {
  await tx.query('select pg_advisory_xact_lock($1::bigint)', [writeKey(tx.schema)])
}

/**
 * The second statement of every write, after the key: a rewind or pause that was committed before is seen here, and
 * one that comes later waits for this transaction.
 *
 * @throws WriteRefusedError
 */
export async function refuseDuringRewind(tx: Tx): Promise<void> {
  const { rows } = await tx.query<{ key: string }>(
    `select key from _global where key in ('rewind_lock', 'pause')`,
  )
  if (rows.length === 0) return
  throw new WriteRefusedError(rows.some((row) => row.key === 'rewind_lock') ? 'rewind' : 'pause')
}
