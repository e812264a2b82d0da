import { pause } from './pause.js'

/** So many requests at a time and in a second, the others wait in order; public nodes shut out who asks for more. */
export class RequestSlots {
  #free: number
  readonly #apartMs: number
  /** By `performance.now()`: when the next request may begin. */
  #nextAt = 0
  readonly #waiting = new Set<() => void>() // in the order in which they came

  /** @param perSecond null: as fast as they come */
  constructor(atOnce: number, perSecond: number | null) {
    this.#free = atOnce
    this.#apartMs = perSecond === null ? 0 : 1000 / perSecond
  }

  /** @throws the reason of the aborted signal, also while it waits */
  async hold<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    await this.#acquire(signal)
    try {
      await this.#space(signal)
      return await work()
    } finally {
      this.#release()
    }
  }

  async #acquire(signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted()
    if (this.#free > 0) {
      this.#free -= 1
      return
    }
    await new Promise<void>((resolve, reject) => {
      const take = () => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      const leave = () => {
        this.#waiting.delete(take)
        reject(signal?.reason)
      }
      this.#waiting.add(take)
      signal?.addEventListener('abort', leave, { once: true })
    })
  }

  async #space(signal: AbortSignal | undefined): Promise<void> {
    const now = performance.now()
    const at = Math.max(now, this.#nextAt)
    this.#nextAt = at + this.#apartMs
    if (at > now) await pause(at - now, signal)
  }

  /** Hands the slot to who waits longest, so that nobody who comes later can take it between. */
  #release(): void {
    const [next] = this.#waiting
    if (next === undefined) {
      this.#free += 1
      return
    }
    this.#waiting.delete(next)
    next()
  }
}
