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
import { CallFailure } from './call-failure.js'
import { CallScopes } from './call-scope.js'
import { Endpoint } from './endpoint.js'
import { EndpointHealth } from './endpoint-health.js'

/** One logical answer, made of as many calls as it needs, all of the node that it is given. */
type Job<T> = (node: Endpoint, scope: AbortSignal) => Promise<T>

/** Null as a job's answer means "not here", and the next endpoint is asked. */
type Attempt<T> = { readonly answer: T } | Failure

interface Failure {
  readonly endpoint: string
  readonly failure: CallFailure | LockstepError
}

/**
 * The chain's endpoints in the order of the config. Calls stick to the one that answered last; where it fails, the
 * next one gets the whole question. An endpoint proves its chain id with each answer: its address may come to lead
 * to another chain at any time, whose blocks would look like a fork.
 */
export class EndpointList {
  readonly #chain: ChainKey
  readonly #members: readonly EndpointHealth[]
  readonly #scopes = new CallScopes()
  #current = 0

  constructor(options: EvmChainOptions, logger: Logger, timeoutMs: number) {
    this.#chain = options.chain
    this.#members = options.rpc.map(
      ({ url }) => new EndpointHealth(new Endpoint(options.chain, url, timeoutMs), options, logger),
    )
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
      for (const index of this.#order()) {
        const member = this.#members[index] as EndpointHealth
        const attempt = await this.#attempt(member, job, scope)
        if ('failure' in attempt) failures.push(attempt)
        else if (attempt.answer !== null) {
          this.#current = index
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

  #order(): number[] {
    return this.#members.map((_, offset) => (this.#current + offset) % this.#members.length)
  }

  async #attempt<T>(member: EndpointHealth, job: Job<T>, scope: AbortSignal): Promise<Attempt<T>> {
    try {
      const answer = await member.whileProved(() => job(member.node, scope), scope)
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
