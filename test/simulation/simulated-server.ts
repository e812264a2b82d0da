import pg from 'pg'
import { outside } from './simulated-process.js'
import type { SimulatedSession } from './simulated-session.js'

export interface RealConnection {
  readonly client: pg.Client
  readonly pid: number
}

/** Our tables and views, as `lockstep migrate` makes them. */
export const SCHEMA = 'lockstep'

/**
 * The real PostgreSQL behind the simulation: connections that outlive runs, one observer beside them, and a schema of
 * functions and views that stand before those of the server, so that statements see virtual time and sessions in the
 * same order in each run.
 */
export class SimulatedServer {
  readonly #free: RealConnection[] = []
  readonly #pending = new Set<Promise<unknown>>()
  #clock = Number.NaN
  #sessions = 0

  private constructor(
    readonly url: string,
    readonly observer: pg.Client,
  ) {}

  static async open(url: string): Promise<SimulatedServer> {
    const observer = new pg.Client({ connectionString: url })
    observer.on('error', () => {})
    await observer.connect()
    await observer.query(SIMULATED_SCHEMA)
    await observer.query(`set time zone 'UTC'; set search_path to ${SCHEMA}`)
    return new SimulatedServer(url, observer)
  }

  nextSession(): number {
    this.#sessions += 1
    return this.#sessions
  }

  async acquire(): Promise<RealConnection> {
    const free = this.#free.pop()
    if (free) return free
    return outside(async () => {
      const client = new pg.Client({ connectionString: this.url })
      client.on('error', () => {}) // the statement under way rejects as well
      await client.connect()
      // The simulation finds deadlocks itself: the server's own check depends on real time.
      await client.query(
        `set deadlock_timeout to '1h'; set jit to off; set max_parallel_workers_per_gather to 0`,
      )
      const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
      return { client, pid: rows[0]?.pid ?? 0 }
    })
  }

  giveBack(connection: RealConnection): void {
    this.#free.push(connection)
  }

  /** Ends the session and waits until nothing of it is left. */
  async discard(connection: RealConnection): Promise<void> {
    await this.observer.query('select pg_terminate_backend($1)', [connection.pid])
    await this.whenGone(connection.pid)
    connection.client.end().catch(() => {})
  }

  /** As `discard`, done before the next statement goes. */
  discardLater(connection: RealConnection): void {
    outside(() => this.track(this.discard(connection)))
  }

  /** Nothing goes on before this is done. */
  track(work: Promise<unknown>): void {
    const done = work.finally(() => this.#pending.delete(done))
    this.#pending.add(done)
  }

  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending)
  }

  async whenGone(pid: number): Promise<void> {
    for (;;) {
      const { rows } = await this.observer.query(GONE, [pid])
      if (rows[0]?.gone === true) return
    }
  }

  async setClock(nowMs: number): Promise<void> {
    if (this.#clock === nowMs) return
    this.#clock = nowMs
    await this.observer.query(`select setval('simulated.clock', $1::bigint)`, [Math.round(nowMs * 1000)])
  }

  /** Tells the server's side which sessions there are, and since when their transactions run. */
  async setSessions(sessions: readonly SimulatedSession[]): Promise<void> {
    await this.observer.query('delete from simulated.session')
    await this.observer.query(
      `insert into simulated.session select pid, number, to_timestamp(began / 1000)
       from unnest($1::int[], $2::int[], $3::float8[]) as s (pid, number, began)`,
      [
        sessions.map((session) => session.connection.pid),
        sessions.map((session) => session.number),
        sessions.map((session) => session.began),
      ],
    )
  }

  /** Whom each of the sessions waits for; an empty list: it runs. */
  async blockers(pids: readonly number[]): Promise<Map<number, number[]>> {
    const { rows } = await this.observer.query<{ pid: number; by: number[] }>(
      'select pid, pg_catalog.pg_blocking_pids(pid) as by from unnest($1::int[]) as waiting (pid)',
      [pids],
    )
    return new Map(rows.map((row) => [row.pid, row.by]))
  }

  async cancel(pid: number): Promise<void> {
    await this.observer.query('select pg_cancel_backend($1)', [pid])
  }

  /** An empty deployment again. */
  async clean(): Promise<void> {
    this.#sessions = 0
    await this.observer.query(CLEAN)
  }

  async close(): Promise<void> {
    await this.settled()
    await Promise.allSettled(this.#free.splice(0).map(({ client }) => client.end()))
    await this.observer.end()
  }
}

const GONE = 'select not exists (select from pg_stat_get_activity($1)) as gone'

const SIMULATED_SCHEMA = `
  create schema if not exists simulated;
  create sequence if not exists simulated.clock; -- microseconds; a row would leave a dead one at each step
  create table if not exists simulated.session (pid int, number int, began timestamptz);
  create or replace function simulated.clock_timestamp() returns timestamptz volatile language sql
    as $$ select timestamptz 'epoch' + last_value * interval '1 microsecond' from simulated.clock $$;
  create or replace function simulated.pg_blocking_pids(waiting int) returns int[] volatile language sql as $$
    select coalesce(array_agg(pid order by number), '{}') from simulated.session
      where pid = any (pg_catalog.pg_blocking_pids(waiting)) $$;
  alter table lockstep.chain alter registered_at set default simulated.clock_timestamp();
  create or replace view simulated.pg_stat_activity as
    select a.pid, a.datname, a.application_name, a.wait_event_type, s.began as xact_start
    from pg_catalog.pg_stat_activity a join simulated.session s using (pid);
  create or replace view simulated.pg_locks as
    select l.* from pg_catalog.pg_locks l join simulated.session s using (pid) order by s.number;
`

const CLEAN = `
  delete from orphaned_event; delete from event; delete from block; delete from header; delete from backfill_ranges;
  delete from rewind_chain; delete from rewind; delete from rollback; delete from event_conflict; delete from chain_status;
  delete from contract_registry; delete from config_change; delete from chain_filter; delete from transaction;
  delete from checkpoint; delete from lease; delete from chain;
  delete from _global; insert into _global values ('epoch', '0', to_timestamp(0), to_timestamp(0));
`
