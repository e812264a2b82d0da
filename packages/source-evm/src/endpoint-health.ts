import type { EvmChainOptions } from '@lockstep/config'
import { type LockstepError, WrongChainError } from '@lockstep/domain'
import type { Logger } from '@lockstep/telemetry'
import { CallFailure } from './call-failure.js'
import type { Endpoint } from './endpoint.js'
import { isThrottled } from './judge-failure.js'
import { readQuantity } from './read-shape.js'

// Short against the life of a worker and long against a poll: one request in some hundred is such a check.
const CHAIN_ID_FRESH_MS = 60_000
const THROTTLED_MS = 1_000 // where a node says "too many" and not for how long

/** One endpoint and what is known of it: whether it is of the chain, whether it asked to be left alone. */
export class EndpointHealth {
  /** Monotonic ms until which the last proof of the chain id holds. */
  #provedUntil = Number.NEGATIVE_INFINITY
  #quietUntil = Number.NEGATIVE_INFINITY
  #quietBecause: CallFailure | null = null
  #healthy = true

  constructor(
    readonly node: Endpoint,
    private readonly options: EvmChainOptions,
    private readonly logger: Logger,
  ) {}

  /**
   * @throws CallFailure, without a request, while the node's `Retry-After` lasts; or that of `eth_chainId`
   * @throws WrongChainError
   */
  async proveChain(scope: AbortSignal): Promise<void> {
    if (this.#quietBecause !== null && performance.now() < this.#quietUntil) throw this.#quietBecause
    if (performance.now() < this.#provedUntil) return
    await this.proveChainNow(scope)
  }

  async proveChainNow(scope: AbortSignal): Promise<true> {
    const answer = await this.node.call({ method: 'eth_chainId', params: [] }, scope)
    const reported = readQuantity(this.node, 'eth_chainId', 'chain id', answer)
    if (reported.toString() !== this.options.chainId) {
      const { chain, chainId } = this.options
      throw new WrongChainError(chain, this.node.name, chainId, reported.toString())
    }
    this.#provedUntil = performance.now() + CHAIN_ID_FRESH_MS
    return true
  }

  /** Logs when the state changes, not at each call: an outage of hours is two lines. */
  succeeded(): void {
    this.#quietBecause = null
    if (this.#healthy) return
    this.#healthy = true
    this.logger.info({ chain: this.options.chain, endpoint: this.node.name }, 'rpc endpoint recovered')
  }

  failed(error: CallFailure | LockstepError): void {
    this.#provedUntil = Number.NEGATIVE_INFINITY
    if (error instanceof CallFailure && isThrottled(error) && error !== this.#quietBecause) {
      this.#quietBecause = error
      this.#quietUntil = performance.now() + (error.facts.retryAfterMs ?? THROTTLED_MS)
    }
    if (!this.#healthy) return
    this.#healthy = false
    const fields = { chain: this.options.chain, endpoint: this.node.name, reason: error.message }
    if (error instanceof WrongChainError)
      this.logger.error(fields, 'rpc endpoint of another chain was shut out')
    else this.logger.warn(fields, 'rpc endpoint failed')
  }
}
