import { setMaxListeners } from 'node:events'
import {
  type ChainKey,
  HeightPrunedError,
  LockstepError,
  MalformedAnswerError,
  RpcUnavailableError,
  WrongChainError,
} from '@lockstep/domain'
import type { Logger } from '@lockstep/telemetry'
import type { CometEndpoint, VerifiedEndpoint } from './comet-endpoint.js'
import { RpcErrorAnswer } from './rpc-error-answer.js'

/**
 * How long a node's word on who it is holds: a proxy may be pointed at another network while we run. Each `tip`
 * asks anew anyway, so this binds only a long backfill.
 */
export const VERIFIED_FOR_MS = 60_000

interface Candidate {
  readonly endpoint: CometEndpoint
  verified: { readonly by: VerifiedEndpoint; readonly atMs: number } | null
  /** Set while the node is shut out: it said that it is of another network. */
  refused: { readonly error: WrongChainError; readonly atMs: number } | null
}

/**
 * The chain's addresses. One is used until it fails, then the next in the order of the file: what belongs together
 * comes from one node, and caches of a node stay warm. A node is asked who it is before its first use, after each
 * failure, and every `VERIFIED_FOR_MS`.
 */
export class EndpointPool {
  readonly #candidates: readonly Candidate[]
  #current = 0

  constructor(
    readonly chain: ChainKey,
    endpoints: readonly CometEndpoint[],
    readonly logger: Logger,
  ) {
    this.#candidates = endpoints.map((endpoint) => ({ endpoint, verified: null, refused: null }))
  }

  /**
   * Runs `work` on one node, from its beginning again on the next where it fails.
   *
   * @throws the reason of the aborted signal, or what `mostTelling` makes of all failures
   */
  async run<T>(work: (node: VerifiedEndpoint) => Promise<T>, signal?: AbortSignal): Promise<T> {
    allowManyListeners(signal)
    const failures: LockstepError[] = []
    for (const candidate of this.#inOrder()) {
      try {
        const answer = await work(await this.#verified(candidate, signal))
        this.#settleOn(candidate, failures)
        return answer
      } catch (error) {
        failures.push(this.#noteFailure(candidate, error, signal))
      }
    }
    throw this.#mostTelling(failures)
  }

  /** Asks every node anew. @throws WrongChainError where any is of another network: the config is wrong */
  async checkAll(signal?: AbortSignal): Promise<void> {
    allowManyListeners(signal)
    const failures: LockstepError[] = []
    await Promise.all(
      this.#candidates.map(async (candidate) => {
        try {
          await this.#verifyNow(candidate, signal)
        } catch (error) {
          failures.push(this.#noteFailure(candidate, error, signal))
        }
      }),
    )
    const wrong = failures.find((failure) => failure instanceof WrongChainError)
    if (wrong) throw wrong
    if (failures.length === this.#candidates.length) throw this.#mostTelling(failures)
  }

  close(): void {
    for (const { endpoint } of this.#candidates) endpoint.close()
  }

  #inOrder(): Candidate[] {
    return [...this.#candidates.slice(this.#current), ...this.#candidates.slice(0, this.#current)]
  }

  async #verified(candidate: Candidate, signal: AbortSignal | undefined): Promise<VerifiedEndpoint> {
    const { refused, verified } = candidate
    if (refused !== null && isFresh(refused.atMs)) throw refused.error
    if (verified !== null && isFresh(verified.atMs)) return verified.by
    return this.#verifyNow(candidate, signal)
  }

  async #verifyNow(candidate: Candidate, signal: AbortSignal | undefined): Promise<VerifiedEndpoint> {
    const by = await candidate.endpoint.verify(signal)
    candidate.verified = { by, atMs: performance.now() }
    candidate.refused = null
    return by
  }

  #settleOn(candidate: Candidate, failures: readonly LockstepError[]): void {
    const index = this.#candidates.indexOf(candidate)
    if (index === this.#current) return
    this.#current = index
    const { chain } = this
    this.logger.warn(
      { chain, endpoint: candidate.endpoint.address, err: failures[0] },
      'moved to another endpoint',
    )
  }

  /** Returns the failure; throws what is none: an abort, or a defect of ours. */
  #noteFailure(candidate: Candidate, error: unknown, signal: AbortSignal | undefined): LockstepError {
    signal?.throwIfAborted()
    const failure = error instanceof RpcErrorAnswer ? candidate.endpoint.unavailable(error.text) : error
    if (!(failure instanceof LockstepError)) throw failure
    candidate.verified = null
    if (failure instanceof WrongChainError && candidate.refused?.error !== failure) {
      candidate.refused = { error: failure, atMs: performance.now() }
      this.logger.error({ chain: this.chain, err: failure }, 'endpoint of another chain was shut out')
    }
    return failure
  }

  /**
   * One error for all nodes' failures. "Pruned" and "wrong chain" stop a chain, so they are said only where every
   * node says so: one that is merely down may have the block.
   */
  #mostTelling(failures: readonly LockstepError[]): LockstepError {
    const [first, ...others] = failures
    if (first === undefined) return new RpcUnavailableError(this.chain, '(none)', 'no address is configured')
    const kinds = [HeightPrunedError, WrongChainError, MalformedAnswerError]
    if (others.length === 0 || kinds.some((kind) => failures.every((failure) => failure instanceof kind)))
      return first
    const addresses = this.#candidates.map(({ endpoint }) => endpoint.address).join(', ')
    return new RpcUnavailableError(this.chain, addresses, failures.map(reasonOf).join('; '), first)
  }
}

/** Each request in flight listens to the signal, and stops: Node would take more than ten of them for a leak. */
function allowManyListeners(signal: AbortSignal | undefined): void {
  if (signal !== undefined) setMaxListeners(0, signal)
}

const isFresh = (atMs: number): boolean => performance.now() - atMs < VERIFIED_FOR_MS

/** With what failed named once: the sentence of an error names its chain and endpoint again. */
const reasonOf = ({ facts, message }: LockstepError): string =>
  typeof facts.reason === 'string' ? `${facts.endpoint}: ${facts.reason}` : message
