import type { EvmChainOptions } from '@lockstep/config'
import {
  type BlockRef,
  type ChainKey,
  type ChainSource,
  type ChainTip,
  type Height,
  type Hex,
  invariant,
  KnownChildren,
  type SourceBlock,
  type SourceRange,
  type SourceWish,
} from '@lockstep/domain'
import type { Logger } from '@lockstep/telemetry'
import { contradicts, type NodeAnswer } from './doubt.js'
import type { Endpoint } from './endpoint.js'
import { EndpointList, type EndpointTimes } from './endpoint-list.js'
import { EventIndex } from './event-index.js'
import { EventReader } from './event-reader.js'
import { fetchBlock } from './fetch-block.js'
import { fetchHeader } from './fetch-headers.js'
import { fetchRange } from './fetch-range.js'
import { fetchBlockOfTransaction } from './fetch-transaction.js'
import { FinalityReader } from './finality.js'
import { HeadAnnouncements } from './head-announcements.js'
import { OddityLog } from './oddity-log.js'

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
export function createEvmSource(options: EvmChainOptions, deps: EvmSourceDeps): ChainSource {
  const shared: SharedParts = {
    options,
    nodes: new EndpointList(options, deps.logger, timesOf(deps)),
    heads: new HeadAnnouncements(options, deps.logger),
    finality: new FinalityReader(options, deps.logger),
    index: new EventIndex(options),
    oddities: new OddityLog(options.chain, deps.logger),
    logger: deps.logger,
  }
  return new EvmSource(shared, { children: new KnownChildren(), only: null })
}

/** What all sources of one chain have together, whatever they are asked for. */
interface SharedParts {
  readonly options: EvmChainOptions
  readonly nodes: EndpointList
  readonly heads: HeadAnnouncements
  readonly finality: FinalityReader
  readonly index: EventIndex
  readonly oddities: OddityLog
  readonly logger: Logger
}

/**
 * Each method is one logical answer, and comes whole from one endpoint: two nodes may stand on two branches, and a
 * header of one with logs of the other would be a block that never was.
 */
class EvmSource implements ChainSource {
  readonly chain: ChainKey
  readonly #shared: SharedParts
  readonly #nodes: EndpointList
  readonly #heads: HeadAnnouncements
  readonly #reader: EventReader

  constructor(shared: SharedParts, wish: SourceWish) {
    this.chain = shared.options.chain
    this.#shared = shared
    this.#nodes = shared.nodes
    this.#heads = shared.heads
    this.#reader = new EventReader(shared.index, wish, shared.oddities)
  }

  check(signal?: AbortSignal): Promise<void> {
    return this.#nodes.check(signal)
  }

  async tip(signal?: AbortSignal): Promise<ChainTip> {
    return this.#nodes.ask(signal, async (node, scope, member) => {
      const tip = await this.#shared.finality.readTip(node, scope)
      member.sawHead(tip.head.height)
      this.#heads.sawHead(tip.head.height)
      return tip
    })
  }

  header(height: Height, signal?: AbortSignal): Promise<BlockRef | null> {
    return this.#nodes.find(
      signal,
      async (node, scope) => (await fetchHeader(node, height, scope))?.ref ?? null,
    )
  }

  block(at: Height, signal?: AbortSignal): Promise<SourceBlock | null> {
    const wish = { at, transactions: this.#shared.options.transactions }
    return this.#confirmed(signal, (node, scope) => fetchBlock(node, this.#reader, wish, scope))
  }

  async range(from: Height, to: Height, signal?: AbortSignal): Promise<SourceRange> {
    const { blocks, transactions } = this.#shared.options
    const wish = { from, to, everyBlock: blocks === 'all', transactions }
    const range = await this.#confirmed(signal, (node, scope) => fetchRange(node, this.#reader, wish, scope))
    invariant(range !== null, 'the answer to a range is never null')
    return range
  }

  blockOfTransaction(txHash: Hex, signal?: AbortSignal): Promise<BlockRef | null> {
    return this.#nodes.find(signal, (node, scope) => fetchBlockOfTransaction(node, txHash, scope))
  }

  asking(wish: SourceWish): ChainSource {
    return new EvmSource(this.#shared, wish)
  }

  onHead(listener: () => void): () => void {
    return this.#heads.listen(listener)
  }

  trouble(): string | null {
    const troubles = [this.#nodes.trouble, this.#heads.trouble].filter((trouble) => trouble !== null)
    return troubles.length === 0 ? null : troubles.join('; ')
  }

  async close(): Promise<void> {
    this.#heads.close()
    this.#nodes.close()
  }

  /** An answer that another endpoint contradicts is not used: the other's is. Where none does, it is accepted. */
  async #confirmed<T>(
    signal: AbortSignal | undefined,
    job: (node: Endpoint, scope: AbortSignal) => Promise<NodeAnswer<T> | null>,
  ): Promise<T | null> {
    const first = await this.#nodes.find(signal, job)
    const [doubt] = first?.doubtful ?? []
    if (first === null || doubt === undefined) return first?.answer ?? null
    let confirmed = false
    const other = await this.#nodes.find(signal, async (node, scope) => {
      if (node === first.node || confirmed) return null
      const opinion = await contradicts(node, this.#reader, first.doubtful, scope)
      confirmed = opinion === 'no'
      return opinion === 'yes' ? job(node, scope) : null
    })
    const { height } = doubt.ref
    const { logger, oddities } = this.#shared
    if (other !== null)
      logger.warn({ chain: this.chain, height, endpoint: first.node.name }, 'endpoint left out logs')
    else if (!confirmed) oddities.acceptedUnconfirmed(height)
    return (other ?? first).answer
  }
}
