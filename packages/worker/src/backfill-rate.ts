/** Old measures fade: what was fetched longer ago than about this says little of today's node. */
const REMEMBERED_SECONDS = 60
/** Fewer blocks tell more of one answer's delay than of a rate. */
const BLOCKS_MIN = 50

/** Blocks per second while ranges are fetched and stored, without the waits between. */
export class BackfillRate {
  #blocks = 0
  #seconds = 0

  add(blocks: number, seconds: number): void {
    this.#blocks += blocks
    this.#seconds += seconds
    if (this.#seconds <= 2 * REMEMBERED_SECONDS) return
    const kept = REMEMBERED_SECONDS / this.#seconds
    this.#blocks *= kept
    this.#seconds *= kept
  }

  /** Null: too little was seen to tell. */
  get perSecond(): number | null {
    if (this.#blocks < BLOCKS_MIN || this.#seconds === 0) return null
    return Math.round((this.#blocks / this.#seconds) * 10) / 10
  }
}
