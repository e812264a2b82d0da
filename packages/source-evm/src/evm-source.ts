import type { EvmChainOptions } from '@lockstep/config'
import type {
  BlockRef,
  ChainKey,
  ChainSource,
  ChainTip,
  Height,
  Hex,
  SourceBlock,
  SourceRange,
} from '@lockstep/domain'
import type { Logger } from '@lockstep/telemetry'
import { EndpointList, type EndpointTimes } from './endpoint-list.js'
import { EventReader } from './event-reader.js'
import { fetchBlock } from './fetch-block.js'
import { fetchHeader } from './fetch-headers.js'
import { fetchRange } from './fetch-range.js'
import { fetchBlockOfTransaction } from './fetch-transaction.js'
import { FinalityReader } from './finality.js'

export interface EvmSourceDeps {
  readonly logger: Logger
  /** How long one HTTP request may take. Default 20 s: nodes cut slow log queries at 10 to 15 s themselves. */
  readonly requestTimeoutMs?: number
  /** How often endpoints that are not in use are looked at. Default 10 s: two small requests each. */
  readonly probeMs?: number
  /** An endpoint whose head others had so long ago is asked after them. Default 30 s: three looks. */
  readonly lagMostMs?: number
}

const timesOf = (deps: EvmSourceDeps): EndpointTimes => ({
  requestTimeoutMs: deps.requestTimeoutMs ?? 20_000,
  probeMs: deps.probeMs ?? 10_000,
  lagMostMs: deps.lagMostMs ?? 30_000,
})

/** The nodes of one EVM chain. Nothing is asked before the first call of a method. */
export const createEvmSource = (options: EvmChainOptions, deps: EvmSourceDeps): ChainSource =>
  new EvmSource(options, deps)

/**
 * Each method is one logical answer, and comes whole from one endpoint: two nodes may stand on two branches, and a
 * header of one with logs of the other would be a block that never was.
 */
class EvmSource implements ChainSource {
  readonly chain: ChainKey
  readonly #nodes: EndpointList
  readonly #finality: FinalityReader
  readonly #reader: EventReader
  readonly #everyBlock: boolean

  constructor(options: EvmChainOptions, deps: EvmSourceDeps) {
    this.chain = options.chain
    this.#nodes = new EndpointList(options, deps.logger, timesOf(deps))
    this.#finality = new FinalityReader(options, deps.logger)
    this.#reader = new EventReader(options, deps.logger)
    this.#everyBlock = options.blocks === 'all'
  }

  check(signal?: AbortSignal): Promise<void> {
    return this.#nodes.check(signal)
  }

  async tip(signal?: AbortSignal): Promise<ChainTip> {
    return this.#nodes.ask(signal, async (node, scope, member) => {
      const tip = await this.#finality.readTip(node, scope)
      member.sawHead(tip.head.height)
      return tip
    })
  }

  header(height: Height, signal?: AbortSignal): Promise<BlockRef | null> {
    return this.#nodes.find(
      signal,
      async (node, scope) => (await fetchHeader(node, height, scope))?.ref ?? null,
    )
  }

  block(height: Height, signal?: AbortSignal): Promise<SourceBlock | null> {
    return this.#nodes.find(signal, (node, scope) => fetchBlock(node, this.#reader, height, scope))
  }

  range(from: Height, to: Height, signal?: AbortSignal): Promise<SourceRange> {
    return this.#nodes.ask(signal, (node, scope) =>
      fetchRange(node, this.#reader, { from, to, everyBlock: this.#everyBlock }, scope),
    )
  }

  blockOfTransaction(txHash: Hex, signal?: AbortSignal): Promise<BlockRef | null> {
    return this.#nodes.find(signal, (node, scope) => fetchBlockOfTransaction(node, txHash, scope))
  }

  asking(): ChainSource {
    return this
  }

  onHead(): () => void {
    return () => {}
  }

  trouble(): string | null {
    return this.#nodes.trouble
  }

  async close(): Promise<void> {
    this.#nodes.close()
  }
}
