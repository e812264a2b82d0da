import type { EvmChainOptions } from '@lockstep/config'
import type { Logger } from '@lockstep/telemetry'
import { HeadSubscription } from './head-subscription.js'

/** The subscriptions of all endpoints that have an address for them, open while somebody listens. */
export class HeadAnnouncements {
  readonly #listeners = new Set<() => void>()
  readonly #subscriptions: readonly HeadSubscription[]

  constructor({ chain, chainId, rpc }: EvmChainOptions, logger: Logger) {
    const onHead = () => {
      for (const listener of [...this.#listeners]) listener()
    }
    this.#subscriptions = rpc
      .map(({ ws }) => ws)
      .filter((url) => url !== null)
      .map((url) => new HeadSubscription({ chain, chainId, url, logger, onHead }))
  }

  get trouble(): string | null {
    const troubles = this.#subscriptions.map(({ trouble }) => trouble).filter((trouble) => trouble !== null)
    return troubles.length === 0 ? null : troubles.join('; ')
  }

  listen(listener: () => void): () => void {
    const own = () => listener() // the same function may listen twice
    if (this.#listeners.size === 0) for (const each of this.#subscriptions) each.open()
    this.#listeners.add(own)
    return () => {
      if (this.#listeners.delete(own) && this.#listeners.size === 0) this.#end()
    }
  }

  /** Polling saw this head. */
  sawHead(height: number): void {
    if (this.#listeners.size > 0) for (const each of this.#subscriptions) each.sawHead(height)
  }

  close(): void {
    this.#listeners.clear()
    this.#end()
  }

  #end(): void {
    for (const each of this.#subscriptions) each.close()
  }
}
