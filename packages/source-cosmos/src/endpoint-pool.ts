import { setMaxListeners } from 'node:events'
import {
  type ChainKey,
  type Height,
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

/**
 * How long the head may stand still before the other nodes are asked for theirs: some block times, so that a halted
 * chain costs one request a node now and then. And how often it is compared with theirs while it rises.
 */
export const STALLED_AFTER_MS = 15_000
export const COMPARED_EVERY_MS = 60_000

/** How far a node whose head rises may be behind the best one: nodes of one chain differ by a block or two. */
const LAG_MAX = 5

interface Candidate {
  readonly endpoint: CometEndpoint
  verified: { readonly by: VerifiedEndpoint; readonly atMs: number } | null
  /** What it last failed with; null: it did not, or was well since. */
  failure: LockstepError | null
  /** Set while the node is shut out: it said that it is of another network. */
  refused: { readonly error: WrongChainError; readonly atMs: number } | null
}

/**
 * The chain's addresses. One is used until it fails or falls behind, then the next in the order of the file: what
 * belongs together comes from one node, and caches of a node stay warm. A node is asked who it is before its first use, after each
 * failure, and every `VERIFIED_FOR_MS`.
 */
export class EndpointPool {
  readonly #candidates: readonly Candidate[]
  #current = 0
  #head: Height | null = null
  #headRoseAt = performance.now()
  #comparedAt = performance.now()

  constructor(
    readonly chain: ChainKey,
    endpoints: readonly CometEndpoint[],
    readonly logger: Logger,
  ) {
    this.#candidates = endpoints.map((endpoint) => ({
      endpoint,
      verified: null,
      failure: null,
      refused: null,
    }))
  }

  /** What is the matter with nodes, a line each. */
  get troubles(): string[] {
    return this.#candidates.flatMap(({ failure }) => (failure === null ? [] : [reasonOf(failure)]))
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
        candidate.failure = null
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

  /**
   * Tells of the head that the node in use gave. Where it stands still, or from time to time, the others are asked for
   * theirs, and one that is ahead is used from now on.
   */
  async sawHead(head: Height, signal?: AbortSignal): Promise<void> {
    const now = performance.now()
    if (this.#head === null || head > this.#head) this.#headRoseAt = now
    this.#head = head
    const stalled = now - this.#headRoseAt >= STALLED_AFTER_MS
    const compareAgainAt = this.#comparedAt + (stalled ? STALLED_AFTER_MS : COMPARED_EVERY_MS)
    if (this.#candidates.length === 1 || now < compareAgainAt) return
    this.#comparedAt = now
    await this.#followHighest(head, stalled ? 0 : LAG_MAX, signal)
  }

  async #followHighest(head: Height, lagMax: number, signal: AbortSignal | undefined): Promise<void> {
    allowManyListeners(signal)
    const heads = await Promise.all(
      this.#candidates.map(async (candidate, index): Promise<number> => {
        if (index === this.#current) return head
        try {
          return (await this.#verifyNow(candidate, signal)).head ?? 0
        } catch (error) {
          this.#noteFailure(candidate, error, signal)
          return 0
        }
      }),
    )
    const highest = Math.max(...heads)
    if (highest <= head + lagMax) return
    this.#current = heads.indexOf(highest)
    const { chain } = this
    const endpoint = this.#candidates[this.#current]?.endpoint.address
    this.logger.warn({ chain, endpoint, head: highest, behind: head }, 'moved to an endpoint that is ahead')
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
    candidate.failure = null
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
    candidate.failure = failure
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
    const kinds = [WrongChainError, MalformedAnswerError]
    if (failures.every((failure) => failure instanceof HeightPrunedError)) return deepest(failures)
    if (others.length === 0 || kinds.some((kind) => failures.every((failure) => failure instanceof kind)))
      return first
    const addresses = this.#candidates.map(({ endpoint }) => endpoint.address).join(', ')
    return new RpcUnavailableError(this.chain, addresses, failures.map(reasonOf).join('; '), first)
  }
}

/** Of the node that keeps most: what it says bounds the gap. */
function deepest(failures: readonly HeightPrunedError[]): HeightPrunedError {
  const lowestOf = ({ lowest }: HeightPrunedError) => lowest ?? Number.MAX_SAFE_INTEGER
  return failures.reduce((best, each) => (lowestOf(each) < lowestOf(best) ? each : best))
}

/** Each request in flight listens to the signal, and stops: Node would take more than ten of them for a leak. */
function allowManyListeners(signal: AbortSignal | undefined): void {
  if (signal !== undefined) setMaxListeners(0, signal)
}

const isFresh = (atMs: number): boolean => performance.now() - atMs < VERIFIED_FOR_MS

/** With what failed named once: the sentence of an error names its chain and endpoint again. */
const reasonOf = ({ facts, message }: LockstepError): string =>
  typeof facts.reason === 'string' ? `${facts.endpoint}: ${facts.reason}` : message
