import type { CallFailure } from './call-failure.js'
import { suggestedWidth } from './judge-failure.js'

// One success in 32 is followed by a try at the double: where the limit is hard that costs 3 % more requests, and
// where it was the size of the result (a busy stretch) the old width is back within a few hundred requests.
const GROW_AFTER = 32

/** The widest log query that a node answered, learned from its refusals. */
export class LogWidth {
  #blocksMax = Number.POSITIVE_INFINITY
  #successes = 0

  /** How many blocks to ask for at once. */
  get blocksMax(): number {
    return this.#blocksMax
  }

  /** A query over so many blocks was refused. */
  narrow(blocks: number, failure: CallFailure): void {
    const half = Math.max(1, Math.floor(blocks / 2))
    const suggested = suggestedWidth(failure)
    this.#blocksMax = suggested !== null && suggested < blocks ? suggested : half
    this.#successes = 0
  }

  /** A query over so many blocks was answered. */
  widen(blocks: number): void {
    if (blocks < this.#blocksMax) return // the last piece of a range proves nothing
    this.#successes += 1
    if (this.#successes < GROW_AFTER) return
    this.#blocksMax *= 2
    this.#successes = 0
  }
}
