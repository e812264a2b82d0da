import { EventEmitter } from 'node:events'
import type pg from 'pg'
import type { Scheduler } from './scheduler.js'
import type { SimulatedProcess } from './simulated-process.js'
import type { RealConnection } from './simulated-server.js'

/*
 * What a simulated process gets for pg's pool and client. Statements go to the real PostgreSQL over real connections,
 * but each waits for its turn first. Notifications are carried by the simulation, which may be late with them or lose
 * them; so are all time-outs of the server, since they count virtual time.
 */

export class SimulatedPool extends EventEmitter {
  readonly #waiting: (() => void)[] = []
  #open = 0
  #ended = false

  constructor(
    readonly scheduler: Scheduler,
    readonly process: SimulatedProcess,
    readonly config: pg.PoolConfig,
  ) {
    super()
  }

  async connect(): Promise<SimulatedSession> {
    if (this.#ended) throw new Error('Cannot use a pool after calling end on the pool')
    if (this.#open >= (this.config.max ?? 10))
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    this.#open += 1
    try {
      refuseWhileCutOff(this.scheduler, this.process)
      const connection = await this.scheduler.connection(this.process)
      return new SimulatedSession(this, connection)
    } catch (error) {
      this.closed()
      throw error
    }
  }

  closed(): void {
    this.#open -= 1
    this.#waiting.shift()?.()
  }

  async end(): Promise<void> {
    this.#ended = true
  }
}

export type Statement = { readonly text: string; readonly values: unknown[] | undefined }

/** One checked-out connection. */
export class SimulatedSession extends EventEmitter {
  /** Tells sessions apart in the same way each time a seed is run, which the server's process ids do not. */
  readonly number: number
  /** Virtual time at which the open transaction began; null: none is open. */
  began: number | null = null
  idleTimeoutMs = 0
  lockTimeoutMs = 0
  /** Since when the server has waited for the next statement of an open transaction. */
  idleSince: number | null = null
  /** Why nothing more goes over this connection. */
  lost: Error | null = null
  /** Channels that the open transaction has notified. */
  notified = new Set<string>()
  /** What the open transaction has done, for the checks at its commit. */
  statements: Statement[] = []

  constructor(
    readonly pool: SimulatedPool,
    readonly connection: RealConnection,
  ) {
    super()
    this.number = pool.scheduler.server.nextSession()
    this.process.sessions.add(this)
  }

  get process(): SimulatedProcess {
    return this.pool.process
  }

  query(text: string, values?: unknown[]): Promise<unknown> {
    if (this.lost !== null) return Promise.reject(this.lost)
    const statement = { text: this.#open(text), values }
    return this.pool.scheduler.statement(this, statement)
  }

  release(error?: Error): void {
    this.process.sessions.delete(this)
    this.pool.closed()
    if (this.lost !== null) return
    if (error || this.began !== null) this.pool.scheduler.discard(this.connection)
    else this.pool.scheduler.server.giveBack(this.connection)
  }

  /** The connection broke. The process hears of it at once where it can. */
  lose(error: Error): void {
    if (this.lost !== null) return
    this.lost = error
    this.began = null
    this.idleSince = null
    if (this.process.active && this.listenerCount('error') > 0)
      this.process.run(() => this.emit('error', error))
  }

  /** Time-outs are the simulation's; names of the simulation's schema go first. */
  #open(text: string): string {
    if (!text.startsWith('begin')) return text
    const limit = (name: string) => Number(new RegExp(`set local ${name} to (\\d+)`).exec(text)?.[1] ?? 0)
    this.idleTimeoutMs = limit('idle_in_transaction_session_timeout')
    this.lockTimeoutMs = limit('lock_timeout')
    return text
      .replace('set local search_path to ', 'set local search_path to simulated, pg_catalog, ')
      .replace(/set local (idle_in_transaction_session_timeout|lock_timeout) to \d+/g, 'set local $1 to 0')
  }
}

/** A connection that only listens. */
export class SimulatedListening extends EventEmitter {
  #channel: string | null = null
  #ended = false

  constructor(
    readonly scheduler: Scheduler,
    readonly process: SimulatedProcess,
  ) {
    super()
  }

  connect(): Promise<void> {
    return this.scheduler.call(this.process, 'connect to listen', () =>
      refuseWhileCutOff(this.scheduler, this.process),
    )
  }

  query(text: string): Promise<void> {
    return this.scheduler.call(this.process, text, () => {
      if (this.#ended) throw connectionLost()
      this.#channel = /^listen (\w+)$/.exec(text)?.[1] ?? null
      this.scheduler.book.listening.add(this)
    })
  }

  hears(channel: string): boolean {
    return this.#channel === channel
  }

  /** The connection broke, or is closed. */
  async end(): Promise<void> {
    if (this.#ended) return
    this.#ended = true
    this.scheduler.book.listening.delete(this)
    if (this.process.alive) this.process.run(() => this.emit('end'))
  }
}

function refuseWhileCutOff(scheduler: Scheduler, process: SimulatedProcess): void {
  if (scheduler.now < process.cutOffUntil)
    throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
}

/** As PostgreSQL says it when it ends a session. */
export const connectionLost = (code = '57P01'): Error =>
  Object.assign(new Error('terminating connection due to administrator command'), { code })

/** As pg says it when the socket is gone. */
export const answerLost = (): Error => new Error('Connection terminated unexpectedly')
