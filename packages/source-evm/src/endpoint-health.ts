import type { EvmChainOptions } from '@lockstep/config'
import { type LockstepError, WrongChainError } from '@lockstep/domain'
import type { Logger } from '@lockstep/telemetry'
import { CallFailure } from './call-failure.js'
import type { Endpoint } from './endpoint.js'
import { isThrottled } from './judge-failure.js'
import { readQuantity } from './read-shape.js'

const THROTTLED_MS = 1_000 // where a node says "too many" and not for how long

/** One endpoint and what is known of it: whether it is of the chain, whether it asked to be left alone. */
export class EndpointHealth {
  /** Whether the last answer came with the right chain id. */
  #proved = false
  /** Monotonic ms. */
  #quietUntil = Number.NEGATIVE_INFINITY
  #quietBecause: CallFailure | null = null
  #healthy = true

  constructor(
    readonly node: Endpoint,
    private readonly options: EvmChainOptions,
    private readonly logger: Logger,
  ) {}

  /**
   * The job's answer, with the chain id proved at the same time: one small request more, which costs no waiting.
   * Before the first use and after a failure the proof comes first, and nothing else is asked of a wrong node.
   *
   * @throws CallFailure, without a request, while the node's `Retry-After` lasts
   * @throws WrongChainError
   */
  async whileProved<T>(job: () => Promise<T>, scope: AbortSignal): Promise<T> {
    if (this.#quietBecause !== null && performance.now() < this.#quietUntil) throw this.#quietBecause
    if (this.#proved) return (await Promise.all([job(), this.proveChain(scope)]))[0]
    await this.proveChain(scope)
    return job()
  }

  async proveChain(scope: AbortSignal): Promise<void> {
    const answer = await this.node.call({ method: 'eth_chainId', params: [] }, scope)
    const reported = readQuantity(this.node, 'eth_chainId', 'chain id', answer)
    if (reported.toString() !== this.options.chainId) {
      const { chain, chainId } = this.options
      throw new WrongChainError(chain, this.node.name, chainId, reported.toString())
    }
    this.#proved = true
  }

  /** Logs when the state changes, not at each call: an outage of hours is two lines. */
  succeeded(): void {
    this.#quietBecause = null
    if (this.#healthy) return
    this.#healthy = true
    this.logger.info({ chain: this.options.chain, endpoint: this.node.name }, 'rpc endpoint recovered')
  }

  failed(error: CallFailure | LockstepError): void {
    this.#proved = false
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
