/** Invariant of the list: heights rise, and so do times. */
interface Seen {
  readonly height: number
  /** Monotonic ms. */
  readonly at: number
}

/** Longer than any lag that is judged; what is older is of no use. */
const KEPT_MS = 10 * 60_000

/**
 * When each height was first seen, at whichever endpoint. How far one lags is told in time, not in blocks: five
 * blocks are a minute on one chain and a second on another. An endpoint whose head stands still while those of others
 * move lags ever more, so that a stall needs no rule of its own.
 */
export class BestHead {
  #seen: Seen[] = []

  /** How long ago another endpoint had more than this one's head, which it has now; 0: it is in front. In ms. */
  lagMs(height: number, now: number): number {
    const passed = this.#seen.find((each) => each.height > height)
    if (passed !== undefined) return now - passed.at
    if (height > (this.#seen.at(-1)?.height ?? -1)) this.#seen.push({ height, at: now })
    while ((this.#seen[1]?.at ?? now) < now - KEPT_MS) this.#seen.shift()
    return 0
  }
}
