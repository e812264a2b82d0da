/** A log that is not what its ABI says; the message is the reason, for people. */
export class UnfitLogError extends Error {
  override readonly name = 'UnfitLogError'
}

/**
 * How many times the size of the data may be read of them in all. Once is what an encoder writes that puts each value
 * into a place of its own; more is left for those that let equal values share one. It keeps what hostile offsets make
 * of few bytes (a list of lists that all lie in one place) within reach of the bytes that came.
 */
const READ_TIMES_MAX = 4

/** Above it an offset or length leads out of any data that a node sends; it is read exactly up to here. */
const NEAR = '0'.repeat(56)

/**
 * The bytes of a log's data, as the hex that they came in: most values go on as hex. Nothing is read beyond them, and
 * not much more than them in all. Places are counted in bytes. Methods throw UnfitLogError.
 */
export class LogData {
  /** How many bytes there are. */
  readonly size: number
  readonly #hex: string
  #budget: number

  /** @param hex `0x` and lower-case digits */
  constructor(hex: string) {
    this.#hex = hex
    this.size = (hex.length - 2) / 2
    this.#budget = this.size * READ_TIMES_MAX
  }

  /** The 64 digits of the word at the place. */
  word(at: number): string {
    return this.digits(at, 32)
  }

  /** So many bytes as hex digits. */
  digits(at: number, bytes: number): string {
    if (at + bytes > this.size) throw new UnfitLogError(`they end after ${this.size} bytes`)
    this.charge(bytes)
    return this.#hex.slice(2 + 2 * at, 2 + 2 * (at + bytes))
  }

  /** A word that is an offset, or the length of something: at most the size of the data. */
  span(at: number, what: 'an offset' | 'a length'): number {
    const word = this.word(at)
    const span = word.startsWith(NEAR)
      ? Number.parseInt(word.slice(NEAR.length), 16)
      : Number.POSITIVE_INFINITY
    if (span > this.size) throw new UnfitLogError(`${what} leads out of them`)
    return span
  }

  /** Counts what is made of the data. */
  charge(bytes: number): void {
    this.#budget -= bytes
    if (this.#budget < 0) throw new UnfitLogError('their offsets use the same bytes over and over')
  }
}
