import type { ChainSource } from '@lockstep/domain'

/**
 * Whether a node has announced a new head since a moment. The moment is named by a signal that is taken before the
 * node is asked for its head, so that an announcement between the answer and the wait is not missed.
 */
export class HeadWatch {
  #next = new AbortController()
  readonly #end: () => void

  constructor(source: ChainSource) {
    this.#end = source.onHead(() => {
      const announced = this.#next
      this.#next = new AbortController()
      announced.abort()
    })
  }

  /** Aborts at the first announcement from now on. */
  next(): AbortSignal {
    return this.#next.signal
  }

  close(): void {
    this.#end()
  }
}
