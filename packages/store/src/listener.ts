import type pg from 'pg'
import type { Database } from './database.js'
import { notifyChannel } from './names.js'

/** What a notification is about. Only a hint: the rows are the truth. */
export type Notice = 'rewind' | 'release' | 'pause'

const RECONNECT_MS_MAX = 5000

/**
 * Hears notifications, and wakes whoever waits. They may be lost at any time (a cut connection, a pooler), so a wait
 * always has a limit, after which the caller reads the rows anyway. After each (re)connection everybody is woken once:
 * what was sent between connecting and listening is found by reading.
 */
export class Listener {
  #client: pg.Client | null = null
  #closed = false
  #heard = 0
  #waiting = new Set<() => void>()
  #retry: NodeJS.Timeout | undefined

  private constructor(readonly db: Database) {}

  static open(db: Database): Listener {
    const listener = new Listener(db)
    void listener.#connect(100)
    return listener
  }

  /** Rises with each notification; pass it to `wait` so that one between reading and waiting is not missed. */
  get heard(): number {
    return this.#heard
  }

  /** Resolves when a notification came since `heard`, after `ms`, or when `signal` aborts. */
  async wait(heard: number, ms: number, signal?: AbortSignal): Promise<void> {
    if (heard !== this.#heard || signal?.aborted) return
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer)
        this.#waiting.delete(done)
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      this.#waiting.add(done)
      signal?.addEventListener('abort', done, { once: true })
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#retry)
    this.#wake()
    await this.#client?.end().catch(() => {})
  }

  async #connect(retryMs: number): Promise<void> {
    try {
      const client = await this.db.connect()
      client.on('notification', () => this.#wake())
      client.on('end', () => this.#lost(client))
      this.#client = client
      await client.query(`listen ${notifyChannel(this.db.schema)}`)
      if (this.#closed) await client.end()
      this.#wake()
    } catch (error) {
      this.db.logger.debug(
        { err: error },
        'listening for notifications failed; rows are read by polling meanwhile',
      )
      this.#client?.removeAllListeners('end')
      await this.#client?.end().catch(() => {})
      this.#client = null
      this.#connectLater(Math.min(retryMs * 2, RECONNECT_MS_MAX))
    }
  }

  #lost(client: pg.Client): void {
    if (this.#client !== client) return
    this.#client = null
    this.#wake()
    this.#connectLater(100)
  }

  #connectLater(ms: number): void {
    if (this.#closed) return
    this.#retry = setTimeout(() => void this.#connect(ms), ms)
    this.#retry.unref()
  }

  #wake(): void {
    this.#heard += 1
    for (const done of [...this.#waiting]) done()
  }
}
