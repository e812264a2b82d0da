import type { Database, Tx } from './database.js'
import { writeKey } from './names.js'

/*
 * A client that is frozen (SIGSTOP, a dead machine, a cut network) keeps its locks, and inside COPY no time-out of the
 * server reaches it. So whoever waits too long follows `pg_blocking_pids` from itself to the session that waits for
 * nobody, and judges that one:
 *
 *  - it blocks the advisory key: writers are short by contract, so one whose transaction is older than the write
 *    time-out is ended (a request has longer, see below);
 *  - it blocks a row: a removal may rightly be long, and renews its lease on another connection meanwhile, so it is
 *    ended only if the process it belongs to holds no lease any more;
 *  - it blocks anything else, as a migration does by its table locks and its own key: it takes as long as it takes.
 *
 * Ending a session undoes its transaction: it can only lose work that was never committed.
 */

type Wait = 'key' | 'row' | 'other'

export interface Blocker {
  readonly pid: number
  readonly holder: string
  readonly transactionSeconds: number
  /** What its direct victim waits for. Of `other` (a table, the key of the migrations) nobody is ended. */
  readonly blocks: Wait
  readonly ended: boolean
}

/** Looks at the blockers of session `pid` again and again, from `afterMs` on, until stopped. */
export function watchWait(db: Database, pid: number, afterMs: number): { stop(): void } {
  let timer: NodeJS.Timeout | undefined
  let stopped = false
  const again = () => {
    if (!stopped) timer = setTimeout(look, afterMs).unref()
  }
  const look = () => {
    endStaleBlocker(db, pid)
      .then((blocker) => {
        if (blocker?.ended) db.logger.warn({ ...blocker }, 'session that held a lock too long was ended')
      })
      .catch((error: unknown) => db.logger.debug({ err: error }, 'blockers could not be looked at'))
      .finally(again)
  }
  again()
  return {
    stop: () => {
      stopped = true
      clearTimeout(timer)
    },
  }
}

/** @returns the session at the end of the chain of waits that starts at `pid`; null where `pid` waits for nobody */
export function endStaleBlocker(db: Database, pid: number): Promise<Blocker | null> {
  return db.transaction((tx) => judge(tx, pid, db.writeTimeoutMs), { lockTimeoutMs: 1000 })
}

/** The sessions that hold the write key now, ended where they are stale: for a request whose own try has timed out. */
export function endStaleKeyHolders(db: Database): Promise<Blocker[]> {
  return db.transaction(
    async (tx) => {
      const holders = await tx.query<{ pid: number }>(KEY_HOLDERS, [writeKey(tx.schema)])
      const found: Blocker[] = []
      for (const { pid } of holders.rows) {
        // A holder that itself waits is not to blame: the one at the end of its waits is.
        found.push(
          (await judge(tx, pid, db.writeTimeoutMs)) ?? (await end(tx, pid, 'key', db.writeTimeoutMs)),
        )
      }
      return found
    },
    { lockTimeoutMs: 1000 },
  )
}

const KEY_HOLDERS = `
  select pid from pg_locks
  where locktype = 'advisory' and granted and objsubid = 1
    and database = (select oid from pg_database where datname = current_database())
    and (classid::bigint << 32) | objid::bigint = $1::bigint
    and pid <> pg_backend_pid()`

const BLOCKED_BY = `
  select unnest(pg_blocking_pids($1)) as blocker, coalesce((
    select case
      when locktype = 'advisory' and objsubid = 1 and (classid::bigint << 32) | objid::bigint = $2::bigint then 'key'
      when locktype in ('transactionid', 'tuple') then 'row' end
    from pg_locks where pid = $1 and not granted limit 1), 'other') as blocks`

async function judge(tx: Tx, start: number, writeTimeoutMs: number): Promise<Blocker | null> {
  const seen = new Set([start])
  let victim = start
  let last: { pid: number; blocks: Wait } | null = null
  for (;;) {
    const { rows } = await tx.query<{ blocker: number; blocks: Wait }>(BLOCKED_BY, [
      victim,
      writeKey(tx.schema),
    ])
    const next = rows.find((row) => !seen.has(row.blocker))
    if (next === undefined) break // waits for nobody, or in a circle: the server's deadlock check resolves that
    last = { pid: next.blocker, blocks: next.blocks }
    seen.add(next.blocker)
    victim = next.blocker
  }
  return last && end(tx, last.pid, last.blocks, writeTimeoutMs)
}

/**
 * How much longer a request may hold the key than a writer: on a chain whose times fell it reads all rows after T. One
 * whose client is frozen between statements is ended by the server itself, after the write time-out.
 */
const REQUEST_PATIENCE = 6

const END_IF_STALE = `
  select coalesce(substring(a.application_name from '^lockstep:(.*)$'), a.application_name) as holder,
    coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::float8 as seconds,
    case
      when $2 = 'key' and clock_timestamp() - a.xact_start > $3 * interval '1 millisecond' * case when exists (
          select from pg_locks where pid = a.pid and locktype = 'advisory' and mode = 'ExclusiveLock' and granted)
          then ${REQUEST_PATIENCE} else 1 end
        then pg_terminate_backend(a.pid)
      when $2 = 'row' and a.application_name like 'lockstep:%' and clock_timestamp() - a.xact_start > $3 * interval '1 millisecond'
        and not exists (select from lease
          where 'lockstep:' || holder = a.application_name and expires_at > clock_timestamp())
        then pg_terminate_backend(a.pid)
      else false
    end as ended
  from pg_stat_activity a where a.pid = $1`

async function end(tx: Tx, pid: number, blocks: Wait, writeTimeoutMs: number): Promise<Blocker> {
  const { rows } = await tx.query<{ holder: string; seconds: number; ended: boolean }>(END_IF_STALE, [
    pid,
    blocks,
    writeTimeoutMs,
  ])
  const row = rows[0] ?? { holder: 'gone', seconds: 0, ended: false }
  return { pid, holder: row.holder, transactionSeconds: row.seconds, blocks, ended: row.ended }
}
