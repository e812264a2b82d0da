import { performance } from 'node:perf_hooks'
import { describeError, LeaseLostError } from '@lockstep/domain'
import type { Database } from './database.js'
import { type HeldLease, renewLease, surrenderLease } from './lease.js'

/**
 * Keeps a lease: renews it at a third of its time, and stops believing in it *before* it ends, by this process's own
 * monotonic clock, counted from before the renewal was sent. (A process that slept cannot notice in time; the token in
 * the checkpoint row refuses it then.)
 */
export class LeaseKeeper {
  readonly #lost = new AbortController()
  readonly #deadlineMs: number
  #validUntil: number
  #timer: NodeJS.Timeout | undefined
  #deadline: NodeJS.Timeout | undefined
  #renewing: Promise<void> = Promise.resolve()
  #closed = false

  /** @param takenAt `performance.now()` from before the lease was asked for */
  constructor(
    readonly db: Database,
    readonly lease: HeldLease,
    readonly timeMs: number,
    takenAt: number,
  ) {
    this.#deadlineMs = timeMs * 0.9
    this.#validUntil = takenAt + this.#deadlineMs
    this.#schedule(timeMs / 3)
    this.#watchDeadline()
  }

  /** Aborts, with a `LeaseLostError` as its reason, when the lease can no longer be believed in. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** @throws LeaseLostError where this process may have slept past its lease */
  check(): void {
    if (performance.now() > this.#validUntil) this.#giveUp('it could not be renewed in time')
    this.#lost.signal.throwIfAborted()
  }

  /** Gives the lease back; it is harmless to do so twice. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    clearTimeout(this.#timer)
    await Promise.race([this.#renewing, aborted(this.lost)]) // a renewal that hangs is waited for until the deadline
    clearTimeout(this.#deadline)
    if (!this.#lost.signal.aborted) await surrenderLease(this.db, this.lease)
  }

  #schedule(ms: number): void {
    if (this.#closed || this.#lost.signal.aborted) return
    this.#timer = setTimeout(() => {
      this.#renewing = this.#renew()
    }, ms)
    this.#timer.unref()
  }

  async #renew(): Promise<void> {
    const sent = performance.now()
    if (sent > this.#validUntil) return this.#giveUp('it could not be renewed in time')
    try {
      if (!(await renewLease(this.db, this.lease, this.timeMs)))
        return this.#giveUp('another process has taken it, or it has ended')
      this.#validUntil = sent + this.#deadlineMs
      this.#watchDeadline()
      this.#schedule(this.timeMs / 3)
    } catch (error) {
      this.db.logger.warn(
        { lease: this.lease.name, reason: describeError(error) },
        'lease could not be renewed; it is tried again',
      )
      this.#schedule(Math.min(1000, this.timeMs / 10))
    }
  }

  /** Also where a renewal neither succeeds nor fails: a connection into a cut network just hangs. */
  #watchDeadline(): void {
    clearTimeout(this.#deadline)
    if (this.#closed) return
    this.#deadline = setTimeout(
      () => this.#giveUp('it could not be renewed in time'),
      this.#validUntil - performance.now(),
    )
    this.#deadline.unref()
  }

  #giveUp(detail: string): void {
    if (!this.#lost.signal.aborted) this.#lost.abort(new LeaseLostError(this.lease.name, detail))
  }
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
