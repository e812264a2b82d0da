import type { CosmosChainOptions } from '@lockstep/config'
import type { Logger } from '@lockstep/telemetry'
import { HeadSubscription, SILENT_AFTER_MS } from './head-subscription.js'

/** The heads that the chain's nodes announce, of all whose config names where: while anybody listens. */
export class Announcements {
  readonly #listeners = new Set<() => void>()
  #subscriptions: readonly HeadSubscription[] = []

  constructor(
    readonly options: CosmosChainOptions,
    readonly deps: { readonly logger: Logger; readonly silentAfterMs?: number },
  ) {}

  /** What is the matter with subscriptions, a line each. */
  get troubles(): string[] {
    return this.#subscriptions.flatMap(({ trouble }) => (trouble === null ? [] : [trouble]))
  }

  /** Until the returned function is called. */
  listen(listener: () => void): () => void {
    const own = () => listener() // so that one function may listen twice
    this.#listeners.add(own)
    if (this.#listeners.size === 1) this.#open()
    return () => {
      if (this.#listeners.delete(own) && this.#listeners.size === 0) this.close()
    }
  }

  close(): void {
    for (const subscription of this.#subscriptions) subscription.close()
    this.#subscriptions = []
  }

  #open(): void {
    const { chain, rpc } = this.options
    const { logger, silentAfterMs = SILENT_AFTER_MS } = this.deps
    const announced = () => {
      for (const listener of this.#listeners) listener()
    }
    this.#subscriptions = rpc.flatMap(({ ws }) =>
      ws === null ? [] : [new HeadSubscription(chain, ws, { logger, silentAfterMs, announced })],
    )
  }
}
