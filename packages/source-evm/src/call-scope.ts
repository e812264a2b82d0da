import { setMaxListeners } from 'node:events'

/**
 * The time that one logical answer takes: over when its job ends, when the caller aborts, or when the source closes.
 *
 * Not `AbortSignal.any`: the caller's signal lives as long as a worker, and each derived signal would stay attached
 * to it.
 */
export class CallScopes {
  readonly #open = new Set<AbortController>()
  #closed: Error | null = null

  /** Rejects with the signal's reason as soon as it is aborted, even where the job does not listen. */
  async run<T>(signal: AbortSignal | undefined, job: (scope: AbortSignal) => Promise<T>): Promise<T> {
    if (this.#closed !== null) throw this.#closed
    signal?.throwIfAborted()
    const controller = new AbortController()
    setMaxListeners(0, controller.signal) // one for each call of a batch; they end with the scope
    const abort = () => controller.abort(signal?.reason)
    signal?.addEventListener('abort', abort, { once: true })
    this.#open.add(controller)
    try {
      return await Promise.race([job(controller.signal), rejectionOf(controller.signal)])
    } finally {
      this.#open.delete(controller)
      signal?.removeEventListener('abort', abort)
    }
  }

  /** Makes every open scope reject with the reason, and every later one at once. */
  close(reason: Error): void {
    this.#closed = reason
    for (const controller of this.#open) controller.abort(reason)
  }
}

const rejectionOf = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
