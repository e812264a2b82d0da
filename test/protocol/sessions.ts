import { waitUntil } from '@lockstep/testkit'
import pg from 'pg'
import { readRows } from '../store/read-rows.js'

interface Place {
  readonly url: string
  readonly schema: string
}

/** Waits until a session of this holder waits for a lock: it can be seen to stand there, so nothing is left to luck. */
export const waitsForLock = (place: Place, holder: string): Promise<number> =>
  waitUntil(`a session of ${holder} waits for a lock`, async () => {
    const [row] = await readRows<{ pid: number }>(
      place,
      `select pid from pg_stat_activity
       where application_name = 'lockstep:' || $1 and datname = current_database() and wait_event_type = 'Lock'`,
      [holder],
    )
    return row?.pid ?? null
  })

/** A plain session that begins a transaction and stays in it until it ends or is ended. */
export class OpenTransaction {
  readonly #client: pg.Client
  /** Why the session ended, if it did. */
  readonly ended: Promise<string>

  private constructor(client: pg.Client) {
    this.#client = client
    this.ended = new Promise((resolve) => {
      client.on('error', (error: Error & { code?: string }) => resolve(error.code ?? error.message))
      client.on('end', () => resolve('end'))
    })
  }

  static async begin({ url, schema }: Place, name: string): Promise<OpenTransaction> {
    const client = new pg.Client({ connectionString: url, application_name: name })
    const session = new OpenTransaction(client)
    await client.connect()
    await client.query(`begin; set local search_path to "${schema}", pg_temp`)
    return session
  }

  query(sql: string, values: readonly unknown[] = []): Promise<pg.QueryResult> {
    return this.#client.query(sql, [...values])
  }

  /** Begins a COPY and then sends nothing: what a client does that was frozen there. */
  async copyNothingInto(table: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#client.query(new SilentCopy(`copy ${table} from stdin`, resolve, reject))
    })
  }

  async rollback(): Promise<void> {
    await this.#client.query('rollback')
    await this.#client.end()
  }

  async close(): Promise<void> {
    await this.#client.end().catch(() => {})
  }
}

/** pg's interface of a query, of which only the beginning is ever answered. */
class SilentCopy implements pg.Submittable {
  constructor(
    readonly text: string,
    readonly started: () => void,
    readonly failed: (error: Error) => void,
  ) {}
  submit(connection: pg.Connection): void {
    connection.query(this.text)
  }
  handleCopyInResponse(): void {
    this.started()
  }
  handleError(error: Error): void {
    this.failed(error)
  }
  handleReadyForQuery(): void {}
  handleCommandComplete(): void {}
  handleRowDescription(): void {}
  handleDataRow(): void {}
  handleEmptyQuery(): void {}
}
