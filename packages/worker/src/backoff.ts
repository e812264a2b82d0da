/** Doubles from the first to the longest, in ms. */
export interface RetryDelays {
  readonly firstMs: number
  readonly mostMs: number
}

const DELAYS: RetryDelays = { firstMs: 250, mostMs: 15_000 }

/** Growing delays with jitter, so that workers that failed together do not come back together. */
export class Backoff {
  #failures = 0

  constructor(private readonly delays: RetryDelays = DELAYS) {}

  next(): number {
    const full = Math.min(this.delays.mostMs, this.delays.firstMs * 2 ** this.#failures)
    this.#failures += 1
    return Math.round(full / 2 + Math.random() * (full / 2))
  }

  /** The first failure of a series, and then ever fewer: a node that is down for a day writes no book. */
  get worthALine(): boolean {
    return Number.isInteger(Math.log2(this.#failures))
  }

  /** Whether the last try failed. */
  get failing(): boolean {
    return this.#failures > 0
  }

  reset(): void {
    this.#failures = 0
  }
}
