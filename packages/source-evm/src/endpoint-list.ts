import type { EvmChainOptions } from '@lockstep/config'
import {
  type ChainKey,
  HeightPrunedError,
  invariant,
  LockstepError,
  MalformedAnswerError,
  RpcUnavailableError,
  WrongChainError,
} from '@lockstep/domain'
import type { Logger } from '@lockstep/telemetry'
import { BestHead } from './best-head.js'
import { CallFailure } from './call-failure.js'
import { CallScopes } from './call-scope.js'
import { Endpoint } from './endpoint.js'
import { EndpointHealth, RANKS } from './endpoint-health.js'

/** One logical answer, made of as many calls as it needs, all of the node that it is given. */
type Job<T> = (node: Endpoint, scope: AbortSignal, member: EndpointHealth) => Promise<T>

/** Null as a job's answer means "not here", and the next endpoint is asked. */
type Attempt<T> = { readonly answer: T } | Failure

interface Failure {
  readonly endpoint: string
  readonly failure: CallFailure | LockstepError
}

/** How long things may take; in ms. */
export interface EndpointTimes {
  /** One HTTP request. */
  readonly requestTimeoutMs: number
  /** How often the endpoints that are not in use are looked at. */
  readonly probeMs: number
  /** An endpoint whose head others had so long ago is asked after them. */
  readonly lagMostMs: number
}

/**
 * The chain's endpoints. The first of the config that is well is asked; where it fails, the next one gets the whole
 * question. Those that failed or lag behind the others are asked last, are looked at from time to time, and take their
 * place again when they are well. An endpoint proves its chain id with each answer: its address may come to lead to
 * another chain at any time, whose blocks would look like a fork.
 */
export class EndpointList {
  readonly #chain: ChainKey
  readonly #members: readonly EndpointHealth[]
  readonly #scopes = new CallScopes()
  readonly #probeMs: number
  /** Monotonic ms; infinite while a look runs. */
  #probesAt: number

  constructor(options: EvmChainOptions, logger: Logger, times: EndpointTimes) {
    const bestHead = new BestHead()
    this.#chain = options.chain
    this.#members = options.rpc.map((endpoint) => {
      const node = new Endpoint(options.chain, endpoint, times.requestTimeoutMs)
      return new EndpointHealth(node, options, logger, bestHead, times.lagMostMs)
    })
    this.#probeMs = times.probeMs
    this.#probesAt = performance.now() + times.probeMs
  }

  /** What is wrong with endpoints, for people; null: nothing. */
  get trouble(): string | null {
    const troubles = this.#members.map((member) => member.trouble).filter((trouble) => trouble !== null)
    return troubles.length === 0 ? null : troubles.join('; ')
  }

  /** Asks every endpoint for its chain id: one that works is enough, one of another chain is too many. */
  check(signal?: AbortSignal): Promise<void> {
    return this.#scopes.run(signal, async (scope) => {
      const attempts = await Promise.all(
        this.#members.map((member) => this.#attempt(member, async () => true, scope)),
      )
      const failures = attempts.filter((attempt) => 'failure' in attempt)
      const wrong = failures.find(({ failure }) => failure instanceof WrongChainError)
      if (wrong !== undefined) throw wrong.failure
      if (failures.length === this.#members.length) throw this.#verdict(failures)
    })
  }

  /** The first answer of an endpoint. @throws RpcUnavailableError where none has one */
  async ask<T extends object>(signal: AbortSignal | undefined, job: Job<T>): Promise<T> {
    const answer = await this.find<T>(signal, job)
    invariant(answer !== null, 'a job of ask() always has an answer')
    return answer
  }

  /** The first answer that is not null; null where at least one endpoint answered and all of those had nothing. */
  find<T extends object>(signal: AbortSignal | undefined, job: Job<T | null>): Promise<T | null> {
    return this.#scopes.run(signal, async (scope) => {
      const failures: Failure[] = []
      for (const member of this.#order()) {
        const attempt = await this.#attempt(member, job, scope)
        if ('failure' in attempt) failures.push(attempt)
        else if (attempt.answer !== null) {
          this.#probeOthers(member)
          return attempt.answer
        }
      }
      if (failures.length < this.#members.length) return null
      throw this.#verdict(failures)
    })
  }

  close(): void {
    const names = this.#members.map(({ node }) => node.name).join(', ')
    this.#scopes.close(new RpcUnavailableError(this.#chain, names, 'this source was closed'))
  }

  /** None is left out: where the better ones have no answer, one that failed a moment ago may have it. */
  #order(): EndpointHealth[] {
    return RANKS.flatMap((rank) => this.#members.filter((member) => member.rank === rank))
  }

  /** Nobody waits for it: an endpoint that hangs is found out, or found well again, beside the work of another. */
  #probeOthers(inUse: EndpointHealth): void {
    if (performance.now() < this.#probesAt) return
    this.#probesAt = Number.POSITIVE_INFINITY
    const due = this.#members.filter((member) => member !== inUse && member.mayBeProbed)
    const probes = this.#scopes.run(undefined, (scope) =>
      Promise.all(due.map((member) => this.#probe(member, scope))),
    )
    probes
      .catch(() => {}) // the source was closed
      .finally(() => {
        this.#probesAt = performance.now() + this.#probeMs
      })
  }

  async #probe(member: EndpointHealth, scope: AbortSignal): Promise<void> {
    try {
      await member.probe(scope)
    } catch (error) {
      if (!isOfTheNode(error)) throw error
      member.failed(error)
    }
  }

  async #attempt<T>(member: EndpointHealth, job: Job<T>, scope: AbortSignal): Promise<Attempt<T>> {
    try {
      const answer = await member.whileProved(() => job(member.node, scope, member), scope)
      member.succeeded()
      return { answer }
    } catch (error) {
      if (!isOfTheNode(error)) throw error
      member.failed(error)
      return { endpoint: member.node.name, failure: error }
    }
  }

  /**
   * One error for the failures of all endpoints, one each. What stops a chain (wrong chain, pruned) is only said
   * where it holds for all of them: one that is merely down may come back and have the answer.
   */
  #verdict(failures: readonly Failure[]): LockstepError {
    const ofTheChain = failures.filter(({ failure }) => !(failure instanceof WrongChainError))
    const errors = (ofTheChain.length > 0 ? ofTheChain : failures).map(({ failure }) => failure)
    const first = errors[0]
    const unanimous = errors.every((error) => error.constructor === first?.constructor)
    if (first instanceof LockstepError && unanimous) return first
    const malformed = errors.find((error) => error instanceof MalformedAnswerError)
    if (malformed !== undefined) return malformed
    const names = failures.map(({ endpoint }) => endpoint).join(', ')
    const reasons = failures.map(({ endpoint, failure }) =>
      failures.length === 1 ? reasonOf(failure) : `${endpoint}: ${reasonOf(failure)}`,
    )
    return new RpcUnavailableError(this.#chain, names, reasons.join('; '))
  }
}

const reasonOf = (failure: CallFailure | LockstepError): string =>
  failure instanceof CallFailure ? `${failure.method}: ${failure.reason}` : failure.message

const isOfTheNode = (error: unknown): error is CallFailure | LockstepError =>
  error instanceof CallFailure ||
  error instanceof MalformedAnswerError ||
  error instanceof HeightPrunedError ||
  error instanceof WrongChainError
