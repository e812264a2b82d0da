import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseUnavailableError, describeError, invariant, LockstepError } from '@lockstep/domain'
import { type Logger, redactText, redactUrl } from '@lockstep/telemetry'
import pg from 'pg'
import { watchWait } from './lock-wait.js'
import { quoteIdent, quoteText } from './names.js'
import { errorCode, isConnectionGone, isRefused, mayRunAgain } from './retry-table.js'
import { typeParsers } from './values.js'

export interface DatabaseSettings {
  readonly url: string
  readonly schema: string
  /** Random per process start; a session carries it in its application name, so that others know under which lease it works. */
  readonly holder: string
  /** The longest that a transaction may idle between statements; also how old one is when a waiter may end it. */
  readonly writeTimeoutMs: number
  readonly logger: Logger
  readonly connectionsMax?: number
}

/** One open transaction: run statements in it, or throw to undo it. */
export interface Tx {
  readonly schema: string
  query<Row extends pg.QueryResultRow = pg.QueryResultRow>(
    sql: string,
    values?: readonly unknown[],
  ): Promise<pg.QueryResult<Row>>
}

export interface TransactionOptions {
  /** Give up waiting for any one lock after this long (SQLSTATE 55P03); null: wait, and end stale blockers. */
  readonly lockTimeoutMs?: number
}

/** A deadlock is undone for one of its parties at once; five in a row are not chance. */
const RUNS_MAX = 5

/** A statement that waits this long has its blockers looked at. Far above what a healthy writer takes. */
const WATCH_AFTER_MS = 1000

/**
 * Connections to one deployment (one schema of one database). All SQL runs in transactions made here: READ COMMITTED,
 * UTC, and the schema as search path, set for the transaction alone so that a transaction pooler in between changes
 * nothing. A statement that ever ran outside its transaction would not find a table.
 */
export class Database {
  readonly schema: string
  readonly holder: string
  readonly writeTimeoutMs: number
  readonly #settings: DatabaseSettings
  readonly #pool: pg.Pool
  readonly #begin: string

  constructor(settings: DatabaseSettings) {
    this.schema = settings.schema
    this.holder = settings.holder
    this.writeTimeoutMs = settings.writeTimeoutMs
    this.#settings = settings
    this.#pool = new pg.Pool({ ...clientConfig(settings), max: settings.connectionsMax ?? 6 })
    // An idle connection that breaks is replaced by the pool; without a listener Node would end the process.
    this.#pool.on('error', (error) =>
      settings.logger.debug({ err: error }, 'idle database connection was lost'),
    )
    this.#begin = [
      'begin isolation level read committed',
      `set local search_path to ${quoteIdent(settings.schema)}, pg_temp`,
      // How values are written must not depend on what a role or a database has set.
      "set local time zone 'UTC'",
      "set local datestyle to 'ISO, YMD'",
      "set local bytea_output to 'hex'",
      'set local array_nulls to on',
      `set local application_name to ${quoteText(applicationName(settings.holder))}`,
      `set local idle_in_transaction_session_timeout to ${settings.writeTimeoutMs}`,
      'select pg_backend_pid() as pid',
    ].join(';')
  }

  get logger(): Logger {
    return this.#settings.logger
  }

  /** Host and database, without credentials. */
  get where(): string {
    return redactUrl(this.#settings.url)
  }

  /**
   * Runs `work` in one transaction and commits it; an error undoes all of it. After a deadlock `work` runs again from
   * its beginning, so it must not change anything but the database.
   *
   * @throws DatabaseUnavailableError where the server refuses, or the connection is lost: the commit may or may not have happened, so the
   *   caller must read what is true before it goes on
   */
  async transaction<T>(work: (tx: Tx) => Promise<T>, options: TransactionOptions = {}): Promise<T> {
    for (let run = 1; ; run++) {
      try {
        return await this.#once(work, options)
      } catch (error) {
        if (error instanceof LockstepError) throw error
        if (isConnectionGone(error) || isRefused(error)) throw this.#unavailable(error)
        if (!mayRunAgain(error) || run === RUNS_MAX) throw error
        this.logger.debug({ run, code: errorCode(error) }, 'transaction met a conflict and was run again')
        await sleep(Math.random() * 20 * 2 ** run)
      }
    }
  }

  async #once<T>(work: (tx: Tx) => Promise<T>, options: TransactionOptions): Promise<T> {
    const client = await this.#pool.connect().catch((error: unknown) => {
      throw this.#unavailable(error) // also a wrong password: nothing was begun
    })
    let broken: Error | undefined
    // A client that is checked out reports a lost connection as an event too: it must not end the process.
    const onError = (error: Error) => {
      broken = error
    }
    client.on('error', onError)
    try {
      const watch = await this.#open(client, options)
      try {
        const result = await work({
          schema: this.schema,
          query: (sql, values) => client.query(sql, values && [...values]),
        })
        const end = await client.query('commit')
        // PostgreSQL answers ROLLBACK to the commit of a transaction in which a statement had failed.
        invariant(end.command === 'COMMIT', 'a transaction whose statements all succeeded commits')
        return result
      } catch (error) {
        await client.query('rollback').catch((lost: Error) => {
          broken = lost
        })
        throw error
      } finally {
        watch?.stop()
      }
    } catch (error) {
      if (isConnectionGone(error)) broken ??= error as Error
      throw error
    } finally {
      client.removeListener('error', onError)
      client.release(broken)
    }
  }

  async #open(client: pg.PoolClient, options: TransactionOptions): Promise<{ stop(): void } | null> {
    const limit = options.lockTimeoutMs
    const results = (await client.query(
      limit === undefined ? this.#begin : `${this.#begin};set local lock_timeout to ${limit}`,
    )) as unknown as pg.QueryResult<{ pid: number }>[]
    const pid = results.flatMap((each) => each.rows)[0]?.pid
    invariant(pid !== undefined, 'a session has a pid')
    // With a limit of its own the caller looks at the blockers itself.
    return limit === undefined ? watchWait(this, pid, WATCH_AFTER_MS) : null
  }

  /** A connection outside the pool, for LISTEN. The caller ends it. */
  async connect(): Promise<pg.Client> {
    const client = new pg.Client(clientConfig(this.#settings))
    client.on('error', () => {}) // the owner watches 'end'; a missing listener would end the process
    try {
      await client.connect()
      return client
    } catch (error) {
      throw this.#unavailable(error)
    }
  }

  /** Waits for what is in flight and closes all connections. */
  async close(): Promise<void> {
    await this.#pool.end()
  }

  #unavailable(error: unknown): DatabaseUnavailableError {
    return databaseUnavailable(this.#settings.url, error)
  }
}

export const applicationName = (holder: string): string => `lockstep:${holder}`

/** A sentence for a person, with what to do for the failures that people meet. */
export function databaseUnavailable(url: string, error: unknown): DatabaseUnavailableError {
  const hints: Readonly<Record<string, string>> = {
    ECONNREFUSED: 'Start PostgreSQL there, or correct DATABASE_URL (database.url in the config).',
    ENOTFOUND: 'Correct the host name in DATABASE_URL (database.url in the config).',
    '28P01': 'Correct user and password in DATABASE_URL.',
    '28000': 'Correct user and password in DATABASE_URL, or allow the user in pg_hba.conf.',
    '3D000': 'Create that database, or correct its name in DATABASE_URL.',
    '25006': 'It is a standby, or set to be read-only: use the primary, or make it writable again.',
    '42501': 'Grant this role what it lacks, or run "lockstep migrate" with the role that owns the tables.',
    '53100': 'Make room on its disk.',
    '57014':
      'Somebody, or a statement_timeout of this role, ended the statement; it is tried again where work goes on.',
    '53300': "Raise PostgreSQL's max_connections, or run fewer processes.",
  }
  const hint =
    hints[errorCode(error) ?? ''] ??
    'Check that PostgreSQL runs and that DATABASE_URL is right; work goes on when it is back.'
  return new DatabaseUnavailableError(redactUrl(url), redactText(describeError(error)), hint, error)
}

function clientConfig(settings: DatabaseSettings): pg.ClientConfig {
  return {
    connectionString: settings.url,
    types: typeParsers,
    application_name: applicationName(settings.holder),
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
  }
}
