import { type HttpFault, JsonRpcServer, RpcFault } from '../rpc/index.js'
import {
  COMET_METHODS,
  type CometNodeState,
  type CometParams,
  internalError,
  resultsMissing,
} from './comet-methods.js'
import { CometSockets } from './comet-sockets.js'
import type { CometChainView } from './comet-wire.js'

/** Answers in the node's place; `honest` is what it would have said. */
export type CometOverride = (params: CometParams, honest: () => unknown) => unknown

/**
 * A CometBFT node over HTTP that serves a chain, and lies on demand. Several nodes may serve one chain, each with
 * lies of its own.
 */
export class SimulatedCometNode {
  /** Delays, dropped connections and other faults below JSON-RPC; counts of calls. */
  readonly server: JsonRpcServer
  /** Subscriptions to new blocks; a test says when they are announced. */
  readonly sockets: CometSockets
  /** Calls of `block_results` that still find nothing: results come a moment after their block. */
  #resultsLag = 0
  #network: string | null = null
  #headMax = Number.POSITIVE_INFINITY
  #base = 0
  readonly #overrides = new Map<string, CometOverride>()
  #refusals: { readonly method: string; left: number; readonly error: RpcFault }[] = []

  private constructor(readonly chain: CometChainView) {
    this.server = new JsonRpcServer((method, params) => this.#answer(method, params))
    this.sockets = new CometSockets(this.server.httpServer)
  }

  static async start(chain: CometChainView): Promise<SimulatedCometNode> {
    const node = new SimulatedCometNode(chain)
    await node.server.start()
    return node
  }

  get url(): string {
    return this.server.url
  }

  get wsUrl(): string {
    return this.url.replace('http', 'ws')
  }

  /** Tells subscribers of the head. */
  announce(): void {
    const { chain, head } = this.state
    const served = chain.at(head)
    if (served !== null) this.sockets.announce(served)
  }

  async stop(): Promise<void> {
    this.sockets.stop()
    await this.server.stop()
  }

  /** Each answer waits this long. */
  delay(ms: number): void {
    this.server.latencyMs = ms
  }

  /** The next `times` HTTP requests fail so: dropped, hung, or with a status. */
  failNext(times: number, fault: HttpFault): void {
    this.server.failNext(times, fault)
  }

  /** The next `times` calls of the method get this reason as CometBFT's internal error. */
  refuseNext(method: string, times: number, reason: string): void {
    this.#refusals.push({ method, left: times, error: internalError(reason) })
  }

  /** Answers the method with `answer` until the returned function is called. */
  override(method: string, answer: CometOverride): () => void {
    this.#overrides.set(method, answer)
    return () => {
      if (this.#overrides.get(method) === answer) this.#overrides.delete(method)
    }
  }

  /** The next `times` calls of `block_results` find no results. */
  lagResults(times: number): void {
    this.#resultsLag = times
  }

  /** The node has thrown away what is below. */
  pruneBelow(height: number): void {
    this.#base = height
  }

  /** The node knows nothing above this height, as one that is behind; null: it knows the whole chain. */
  lowerHead(height: number | null): void {
    this.#headMax = height ?? Number.POSITIVE_INFINITY
  }

  /** The node stays where it is while its chain goes on; `lowerHead(null)` ends it. */
  stall(): void {
    this.lowerHead(this.state.head)
  }

  /** `status` names another network; null: the chain's own. */
  reportNetwork(network: string | null): void {
    this.#network = network
  }

  get state(): CometNodeState {
    const { chain } = this
    return {
      chain,
      network: this.#network ?? chain.chainId,
      head: Math.min(chain.head, this.#headMax),
      base: Math.max(chain.initialHeight, this.#base),
    }
  }

  #answer(method: string, params: unknown): unknown {
    const known = COMET_METHODS[method]
    if (known === undefined) throw new RpcFault(-32601, 'Method not found')
    const named = namedParams(params, known.names)
    this.#refuseWhereAsked(method, named)
    const honest = () => known.answer(this.state, named)
    const override = this.#overrides.get(method)
    // A copy: what a lie changes must not reach the chain.
    return override === undefined ? honest() : override(named, () => copyOf(honest()))
  }

  #refuseWhereAsked(method: string, params: CometParams): void {
    const refusal = this.#refusals.find((each) => each.method === method && each.left > 0)
    if (refusal !== undefined) {
      refusal.left -= 1
      throw refusal.error
    }
    if (method !== 'block_results' || this.#resultsLag === 0) return
    this.#resultsLag -= 1
    throw internalError(resultsMissing(String(params.height ?? this.state.head)))
  }
}

function namedParams(params: unknown, names: readonly string[]): CometParams {
  if (Array.isArray(params)) {
    return Object.fromEntries(
      names.flatMap((name, index) => (index in params ? [[name, params[index]]] : [])),
    )
  }
  return typeof params === 'object' && params !== null ? (params as CometParams) : {}
}

/** Unlike `structuredClone` it makes two objects of one that is referred to twice, as two answers would be. */
const copyOf = (answer: unknown): unknown => JSON.parse(JSON.stringify(answer))
