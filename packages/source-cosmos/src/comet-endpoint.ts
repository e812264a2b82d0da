import {
  type Height,
  HeightPrunedError,
  type MalformedAnswerError,
  type RpcUnavailableError,
  WrongChainError,
} from '@lockstep/domain'
import { type NodeStatus, parseStatus } from './answers.js'
import type { FetchRpcClient } from './fetch-rpc-client.js'
import { dialectOf, type NodeDialect, SUPPORTED_VERSIONS } from './node-version.js'
import { type ErrorMeaning, meaningOf, RpcErrorAnswer } from './rpc-error-answer.js'
import { ShapeError } from './wire.js'

/** A node that was asked who it is, and is of the configured chain. */
export interface VerifiedEndpoint {
  readonly endpoint: CometEndpoint
  readonly dialect: NodeDialect
  /** Its head when it was asked; null: it had no block yet. */
  readonly head: Height | null
}

/** One address: asks, and says what is wrong with an answer in the words of the domain. */
export class CometEndpoint {
  readonly #rpc: FetchRpcClient
  #nextId = 1

  constructor(
    rpc: FetchRpcClient,
    /** The network's name, as the config has it. */
    readonly chainId: string,
  ) {
    this.#rpc = rpc
  }

  get address(): string {
    return this.#rpc.address
  }

  async verify(signal?: AbortSignal): Promise<VerifiedEndpoint> {
    const { version, latest } = await this.status(signal)
    const dialect = dialectOf(version)
    if (dialect === null) {
      throw this.malformed(
        'status',
        `its version is "${version}", but only ${SUPPORTED_VERSIONS} are understood`,
      )
    }
    return { endpoint: this, dialect, head: latest?.height ?? null }
  }

  /** @throws WrongChainError where the node is of another network */
  async status(signal?: AbortSignal): Promise<NodeStatus> {
    const status = await this.ask('status', {}, parseStatus, signal)
    this.refuseOtherNetwork(status.network)
    return status
  }

  refuseOtherNetwork(network: string): void {
    if (network !== this.chainId)
      throw new WrongChainError(this.#rpc.chain, this.address, this.chainId, network)
  }

  /** @throws RpcErrorAnswer, for the caller to read with `refusal` */
  async ask<T>(
    method: string,
    params: object,
    parse: (result: unknown) => T,
    signal?: AbortSignal,
  ): Promise<T> {
    const result = await this.#rpc.execute({ jsonrpc: '2.0', id: this.#nextId++, method, params }, signal)
    try {
      return parse(result)
    } catch (error) {
      if (error instanceof ShapeError) throw this.malformed(method, error.message)
      throw error
    }
  }

  /**
   * What an error answer says of the height asked for, as far as that is for the caller to decide.
   *
   * @throws the error as it is where it is no error answer; HeightPrunedError; RpcUnavailableError where this node
   * cannot help
   */
  refusal(
    method: string,
    error: unknown,
    asked: Height,
  ): Exclude<ErrorMeaning['says'], 'pruned' | 'not kept'> {
    if (!(error instanceof RpcErrorAnswer)) throw error
    const meaning = meaningOf(error, asked)
    if (meaning.says === 'pruned') throw this.pruned(asked, meaning.lowest)
    if (meaning.says === 'not kept') throw this.unavailable(`it refuses ${method}: ${error.text}`)
    return meaning.says
  }

  malformed(method: string, problem: string): MalformedAnswerError {
    return this.#rpc.malformed(method, problem)
  }

  unavailable(reason: string): RpcUnavailableError {
    return this.#rpc.unavailable(reason)
  }

  pruned(height: Height, lowest: Height | null): HeightPrunedError {
    return new HeightPrunedError(this.#rpc.chain, this.address, height, lowest)
  }

  close(): void {
    this.#rpc.disconnect()
  }
}
