import type { CallFailure } from './call-failure.js'
import { suggestedWidth } from './judge-failure.js'

// One success in 32 is followed by a try at the double: where the limit is hard that costs 3 % more requests, and
// where it was the size of the result (a busy stretch) the old width is back within a few hundred requests.
const GROW_AFTER = 32

const SHRINK = 2
const SHRINK_ON_TIMEOUT = 8 // each such refusal costs the whole time limit, and a silent node must be left soon

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
    const part = Math.max(1, Math.floor(blocks / (failure.facts.timedOut ? SHRINK_ON_TIMEOUT : SHRINK)))
    const suggested = suggestedWidth(failure)
    const next = suggested !== null && suggested < blocks ? suggested : part
    this.#blocksMax = Math.min(this.#blocksMax, next) // ranges run in parallel: a wider one may be refused later
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
