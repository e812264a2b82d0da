import type { EvmChainOptions } from '@lockstep/config'
import { type LockstepError, WrongChainError } from '@lockstep/domain'
import type { Logger } from '@lockstep/telemetry'
import type { BestHead } from './best-head.js'
import { CallFailure } from './call-failure.js'
import type { Endpoint } from './endpoint.js'
import { growingDelayMs } from './growing-delay.js'
import { isThrottled } from './judge-failure.js'
import { readIndex, readQuantity } from './read-shape.js'

/**
 * How long an endpoint that failed stands last in the order: the others have the chain meanwhile, and one that is
 * down for hours costs a probe a minute.
 */
const REST = { firstMs: 1_000, mostMs: 60_000 }
/** Where a node says "too many" and not for how long. */
const THROTTLED = { firstMs: 1_000, mostMs: 30_000 }
/** A longer `Retry-After` is asked again after this: nobody is kept away for days by one header. */
const RETRY_AFTER_MOST_MS = 10 * 60_000

/** Invariant: an endpoint of a lower rank is never asked while one of a higher rank has the answer. */
export const RANKS = ['well', 'lagging', 'failing'] as const
export type Rank = (typeof RANKS)[number]

/** One endpoint and what is known of it: whether it is of the chain, well, in time, or asked to be left alone. */
export class EndpointHealth {
  /** Whether the last answer came with the right chain id. */
  #proved = false
  /** Failures since it last did its work. */
  #failures = 0
  /** What is wrong with it, since it last did its work; null: nothing. */
  #failure: CallFailure | LockstepError | null = null
  /** Monotonic ms; what failed is tried again from then on. */
  #restsUntil = Number.NEGATIVE_INFINITY
  /** A probe was answered after the failure: it may do its work again. */
  #answersAgain = false
  #quietUntil = Number.NEGATIVE_INFINITY
  #quietBecause: CallFailure | null = null
  #lagMs = 0
  #lags = false

  constructor(
    readonly node: Endpoint,
    private readonly options: EvmChainOptions,
    private readonly logger: Logger,
    private readonly bestHead: BestHead,
    /** From how much on an endpoint is said to lag. */
    private readonly lagMostMs: number,
  ) {}

  get rank(): Rank {
    if (this.#failure !== null && !this.#answersAgain) return 'failing'
    return this.#lags ? 'lagging' : 'well'
  }

  /** For people: what is wrong with it; null: nothing. */
  get trouble(): string | null {
    const { name } = this.node
    if (this.#failure !== null) return `${name} fails: ${this.#failure.message}`
    return this.#lags ? `${name} lags ${Math.round(this.#lagMs / 1000)} s behind others` : null
  }

  /** Whether a look at it is due: not while it rests, nor while it asked to be left alone. */
  get mayBeProbed(): boolean {
    const now = performance.now()
    return now >= this.#restsUntil && now >= this.#quietUntil
  }

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

  /** Looks whether it answers, of which chain it is and how far it has come, outside anybody's way. */
  async probe(scope: AbortSignal): Promise<void> {
    await this.proveChain(scope)
    const answer = await this.node.call({ method: 'eth_blockNumber', params: [] }, scope)
    this.sawHead(readIndex(this.node, 'eth_blockNumber', 'head', answer))
    // Whether it does its work is seen by its work: a node may answer small questions and fail at large ones.
    this.#answersAgain = true
  }

  sawHead(height: number): void {
    this.#lagMs = this.bestHead.lagMs(height, performance.now())
    const lags = this.#lagMs > this.lagMostMs
    if (lags === this.#lags) return
    this.#lags = lags
    const fields = { ...this.#fields, head: height, lagSeconds: Math.round(this.#lagMs / 1000) }
    if (lags) this.logger.warn(fields, 'rpc endpoint fell behind the others')
    else this.logger.info(fields, 'rpc endpoint caught up')
  }

  /** It did its work. Logs when the state changes, not at each call: an outage of hours is two lines. */
  succeeded(): void {
    this.#quietBecause = null
    this.#failures = 0
    if (this.#failure === null) return
    this.#failure = null
    this.logger.info(this.#fields, 'rpc endpoint recovered')
  }

  failed(error: CallFailure | LockstepError): void {
    if (error === this.#quietBecause) return // it was not asked
    this.#proved = false
    this.#answersAgain = false
    this.#failures += 1
    this.#restsUntil = performance.now() + growingDelayMs(this.#failures, REST)
    if (error instanceof CallFailure && isThrottled(error)) this.#leaveAlone(error)
    const changed = this.#failure === null || isWrong(error) !== isWrong(this.#failure)
    this.#failure = error
    if (!changed) return
    const fields = { ...this.#fields, reason: error.message }
    if (isWrong(error)) this.logger.error(fields, 'rpc endpoint of another chain was shut out')
    else this.logger.warn(fields, 'rpc endpoint failed')
  }

  #leaveAlone(error: CallFailure): void {
    const asked = error.facts.retryAfterMs
    const ms =
      asked === null ? growingDelayMs(this.#failures, THROTTLED) : Math.min(asked, RETRY_AFTER_MOST_MS)
    this.#quietBecause = error
    this.#quietUntil = performance.now() + ms
  }

  get #fields() {
    return { chain: this.options.chain, endpoint: this.node.name }
  }
}

const isWrong = (error: Error): boolean => error instanceof WrongChainError
