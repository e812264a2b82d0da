import {
  HttpFailure,
  type HttpFault,
  JsonRpcServer,
  type RpcCall,
  RpcFault,
  RpcSockets,
} from '../rpc/index.js'
import { answerEthMethod } from './eth-methods.js'
import { boundsOf } from './match-logs.js'
import { NodeView } from './node-view.js'
import { quantity, type RpcObject, type ServedBlock, type ServedChain } from './served-chain.js'
import type { BlockWish } from './simulated-block.js'
import { SimulatedEvmChain, type SimulatedEvmChainOptions } from './simulated-chain.js'

/** Stands in for the honest answer; may give another, throw `RpcFault` or `HttpFailure`, or wait. */
export type AnswerOverride = (params: readonly unknown[], honest: () => unknown) => unknown

/** How a log query over too many blocks is refused. */
export type RangeRefusal =
  | { readonly code: number; readonly message: string; readonly data?: unknown }
  | HttpFault

/** A node over HTTP and WebSocket that serves a chain, and fails and lies on demand. Several may serve one chain. */
export class EvmNode<Chain extends ServedChain = ServedChain> {
  /** The chain id that it reports; null: that of its chain. */
  reportedChainId: number | null = null
  /** Log queries beyond the head: refused as geth does since 2025, or answered with what there is as before. */
  refusesBeyondHead = true

  /** Subscriptions to new heads are accepted and nothing is delivered, which nobody is told. */
  mutesHeads = false

  readonly #server: JsonRpcServer
  readonly #sockets: RpcSockets
  readonly #subscribers = new Set<(block: ServedBlock) => void>()
  readonly #overrides = new Map<string, AnswerOverride>()
  readonly #hidden = new Set<number>()
  #stalled: ServedChain | null = null
  #lowered = 0
  #lowest = 0
  #logLimit: { readonly blocksMax: number; readonly refusal: RangeRefusal } | null = null

  constructor(readonly chain: Chain) {
    this.#server = new JsonRpcServer((method, params) => this.#answer(method, params))
    this.#sockets = new RpcSockets(this.#server.httpServer, (method, params, notify) =>
      method === 'eth_subscribe' ? this.#subscribe(params, notify) : this.#answer(method, params),
    )
    chain.onBlock((block) => this.#announce(block))
  }

  /** Resolves with the address. `port` brings a stopped node back where it was. */
  start(port?: number): Promise<string> {
    return this.#server.start(port)
  }

  stop(): Promise<void> {
    this.dropSockets()
    return this.#server.stop()
  }

  get url(): string {
    return this.#server.url
  }

  get wsUrl(): string {
    return this.#server.url.replace('http', 'ws')
  }

  /** WebSocket connections that were opened so far. */
  get socketsOpened(): number {
    return this.#sockets.opened
  }

  get socketsRefused(): number {
    return this.#sockets.refused
  }

  /** Those that are open now. */
  get socketsOpen(): number {
    return this.#sockets.open
  }

  get port(): number {
    return this.#server.port
  }

  get calls(): readonly RpcCall[] {
    return this.#server.calls
  }

  get httpRequests(): number {
    return this.#server.httpRequests
  }

  countOf(method: string): number {
    return this.#server.countOf(method)
  }

  // ---- ways to fail -----------------------------------------------------------------------------------------------

  /** The next `times` HTTP requests fail so. */
  failNext(times: number, fault: HttpFault): void {
    this.#server.failNext(times, fault)
  }

  dropConnections(): void {
    this.dropSockets()
    this.#server.dropConnections()
  }

  /** Ends the WebSocket connections alone. */
  dropSockets(): void {
    this.#subscribers.clear()
    this.#sockets.drop()
  }

  /** New WebSocket connections are refused. */
  set refusesSockets(refuses: boolean) {
    this.#sockets.refuses = refuses
  }

  set latencyMs(ms: number) {
    this.#server.latencyMs = ms
  }

  /** Larger batches get HTTP 413. */
  set batchMax(calls: number) {
    this.#server.batchMax = calls
  }

  /** Decides for each HTTP request whether it fails. */
  set disturb(decide: (calls: readonly RpcCall[]) => HttpFault | null) {
    this.#server.disturb = decide
  }

  /** Refuses log queries over more blocks, in these words. */
  limitLogRange(blocksMax: number, refusal: RangeRefusal): void {
    this.#logLimit = { blocksMax, refusal }
  }

  // ---- ways to lie ------------------------------------------------------------------------------------------------

  /** Replaces the answer to a method; null gives the honest one back. */
  answer(method: string, override: AnswerOverride | null): void {
    if (override === null) this.#overrides.delete(method)
    else this.#overrides.set(method, override)
  }

  /** From now on this node shows the chain as it is at this moment. */
  stall(): void {
    this.#stalled = this.chain.snapshot()
  }

  /** Ends `stall`. */
  resume(): void {
    this.#stalled = null
  }

  /** This node is `blocks` behind the chain. */
  lowerHead(blocks: number): void {
    this.#lowered = blocks
  }

  /** Null is answered for the height. */
  hide(...heights: number[]): void {
    for (const height of heights) this.#hidden.add(height)
  }

  /** Everything below the height was thrown away. */
  prune(lowest: number): void {
    this.#lowest = lowest
  }

  /** As geth: an id, and from then on a message for each new head. */
  #subscribe(params: unknown, notify: (message: unknown) => void): string {
    if (!Array.isArray(params) || params[0] !== 'newHeads')
      throw new RpcFault(-32601, 'no such subscription here')
    const subscription = quantity(this.#sockets.opened)
    this.#subscribers.add(({ header: result }) =>
      notify({ jsonrpc: '2.0', method: 'eth_subscription', params: { subscription, result } }),
    )
    return subscription
  }

  #announce(block: ServedBlock): void {
    if (this.mutesHeads || this.#stalled !== null) return
    for (const tell of this.#subscribers) tell(block)
  }

  async #answer(method: string, params: unknown): Promise<unknown> {
    const list = Array.isArray(params) ? params : []
    const honest = (): unknown => this.#honest(method, list)
    const override = this.#overrides.get(method)
    return override === undefined ? honest() : await override(list, honest)
  }

  #honest(method: string, params: readonly unknown[]): unknown {
    const view = new NodeView(this.#stalled ?? this.chain, this.#lowered, this.#lowest, this.#hidden)
    if (method === 'eth_chainId' && this.reportedChainId !== null) return quantity(this.reportedChainId)
    if (method !== 'eth_getLogs') return answerEthMethod(view, method, params)
    const filter = this.#checkLogQuery(view, (params[0] ?? {}) as RpcObject)
    return filter === null ? [] : answerEthMethod(view, method, [filter])
  }

  /** The query as it is answered; null: with nothing. */
  #checkLogQuery(view: ServedChain, filter: RpcObject): RpcObject | null {
    if (filter.blockHash !== undefined) return filter
    const [from, to] = boundsOf(view, filter.fromBlock, filter.toBlock)
    if (this.#logLimit !== null && to - from + 1 > this.#logLimit.blocksMax)
      throw refuse(this.#logLimit.refusal)
    if (this.refusesBeyondHead) return filter
    if (from > view.head.number) return null
    return { ...filter, toBlock: quantity(Math.min(to, view.head.number)) }
  }
}

/** A node and the chain that it serves, written by a test. */
export class SimulatedEvmNode extends EvmNode<SimulatedEvmChain> {
  constructor(from: SimulatedEvmChainOptions | SimulatedEvmChain) {
    super(from instanceof SimulatedEvmChain ? from : new SimulatedEvmChain(from))
  }

  extend(wishes: number | readonly BlockWish[]): ServedBlock[] {
    return this.chain.extend(wishes)
  }

  fork(depth: number, wishes?: number | readonly BlockWish[]): ServedBlock[] {
    return this.chain.fork(depth, wishes)
  }

  rollback(depth: number): void {
    this.chain.rollback(depth)
  }
}

const refuse = (refusal: RangeRefusal): Error =>
  'kind' in refusal ? new HttpFailure(refusal) : new RpcFault(refusal.code, refusal.message, refusal.data)
