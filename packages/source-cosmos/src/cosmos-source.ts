import type { CosmosChainOptions } from '@lockstep/config'
import {
  type BlockRef,
  type ChainSource,
  type ChainTip,
  type Height,
  HeightPrunedError,
  type Hex,
  invariant,
  type SourceBlock,
  type SourceRange,
  type SourceWish,
} from '@lockstep/domain'
import type { Logger } from '@lockstep/telemetry'
import { Announcements } from './announcements.js'
import { parseTx } from './answers.js'
import { CometEndpoint, type VerifiedEndpoint } from './comet-endpoint.js'
import { EndpointPool } from './endpoint-pool.js'
import { EventFilters } from './event-filters.js'
import { FetchRpcClient } from './fetch-rpc-client.js'
import { pause } from './pause.js'
import { type BlockWish, LAG_PAUSES_MS, readBlocks } from './read-blocks.js'
import { readHeader, readHeaders } from './read-headers.js'

export interface CosmosSourceDependencies {
  readonly logger: Logger
  /** How long one request may take; default 20 s, more than a full node needs for its largest block. */
  readonly requestTimeoutMs?: number
  /** A longer answer is refused; default 256 MiB, some times the largest results that are known of. */
  readonly answerBytesMax?: number
  /** How long nothing may come of a subscription before it is opened anew; default 30 s. */
  readonly silentAfterMs?: number
}

/** A chain of CometBFT nodes (0.34, 0.37, 0.38, 1.x) over HTTP. Nothing is asked before the first call. */
export function createCosmosSource(options: CosmosChainOptions, deps: CosmosSourceDependencies): ChainSource {
  const endpoints = options.rpc.map(({ url, requestsAtOnce, requestsPerSecond }) => {
    const limits = {
      timeoutMs: deps.requestTimeoutMs ?? 20_000,
      requestsAtOnce,
      requestsPerSecond,
      answerBytesMax: deps.answerBytesMax ?? 256 * 2 ** 20,
    }
    return new CometEndpoint(new FetchRpcClient(options.chain, url, limits), options.chainId)
  })
  const pool = new EndpointPool(options.chain, endpoints, deps.logger)
  const announced = new Announcements(options, deps)
  return new CosmosSource({ options, pool, announced, finalized: new Finalized(options) }, null)
}

/** What a source and those that ask its nodes for something else have in common. */
interface Shared {
  readonly options: CosmosChainOptions
  readonly pool: EndpointPool
  readonly announced: Announcements
  readonly finalized: Finalized
}

class CosmosSource implements ChainSource {
  readonly chain
  readonly #shared: Shared
  readonly #options: CosmosChainOptions
  readonly #pool: EndpointPool
  readonly #wish: BlockWish

  /** @param only digests of the filters whose events are given; null: all */
  constructor(shared: Shared, only: ReadonlySet<string> | null) {
    const { options, pool } = shared
    this.chain = options.chain
    this.#shared = shared
    this.#options = options
    this.#pool = pool
    this.#wish = {
      filters: new EventFilters(options.contracts, only),
      transactions: options.transactions,
    }
  }

  check(signal?: AbortSignal): Promise<void> {
    return this.#pool.checkAll(signal)
  }

  async tip(signal?: AbortSignal): Promise<ChainTip> {
    const head = await this.#pool.run((node) => readHead(node, signal), signal)
    await this.#pool.sawHead(head.height, signal)
    return { head, finalized: this.#shared.finalized.raise(head.height) }
  }

  header(height: Height, signal?: AbortSignal): Promise<BlockRef | null> {
    return this.#pool.run(
      async ({ endpoint }) => (await readHeader(endpoint, height, signal))?.ref ?? null,
      signal,
    )
  }

  block(height: Height, signal?: AbortSignal): Promise<SourceBlock | null> {
    return this.#pool.run(async (node) => {
      const header = await readHeader(node.endpoint, height, signal)
      if (header === null) return null
      const [block] = await readBlocks(node, [header], this.#wish, signal)
      return block ?? null
    }, signal)
  }

  range(from: Height, to: Height, signal?: AbortSignal): Promise<SourceRange> {
    invariant(from <= to, `a range is asked for from below: ${from} to ${to}`)
    return this.#pool.run(async (node) => {
      try {
        return await this.#readRange(node, from, to, signal)
      } catch (error) {
        // What was thrown away is all below some height; which of its requests found that out is chance.
        if (!(error instanceof HeightPrunedError)) throw error
        throw node.endpoint.pruned(from, error.lowest)
      }
    }, signal)
  }

  async #readRange(
    node: VerifiedEndpoint,
    from: Height,
    to: Height,
    signal: AbortSignal | undefined,
  ): Promise<SourceRange> {
    const headers = await readHeaders(node.endpoint, from, to, signal)
    const [first, last] = [headers[0], headers.at(-1)]
    if (first === undefined || last?.ref.height !== to) {
      throw node.endpoint.unavailable(`it does not have block ${to} yet`)
    }
    const blocks = await readBlocks(node, headers, this.#wish, signal)
    const facts = this.#options.blocks === 'all' ? blocks : blocks.filter(({ events }) => events.length > 0)
    return { first: first.ref, blocks: facts, last: last.ref }
  }

  blockOfTransaction(txHash: Hex, signal?: AbortSignal): Promise<BlockRef | null> {
    return this.#pool.run((node) => readBlockOfTransaction(node, txHash, signal), signal)
  }

  /** Cosmos chains have no factories yet, so known children do not matter. */
  asking({ only }: SourceWish): ChainSource {
    return new CosmosSource(this.#shared, only)
  }

  onHead(listener: () => void): () => void {
    return this.#shared.announced.listen(listener)
  }

  trouble(): string | null {
    const troubles = [...this.#pool.troubles, ...this.#shared.announced.troubles]
    return troubles.length === 0 ? null : troubles.join('; ')
  }

  async close(): Promise<void> {
    this.#shared.announced.close()
    this.#pool.close()
  }
}

/** Invariant: never falls. A node that is behind says nothing about what is final. */
class Finalized {
  readonly #depth: number
  #height: Height | null = null

  constructor({ finality }: CosmosChainOptions) {
    invariant(
      finality.by === 'depth',
      'the config gives a Cosmos chain its finality by depth: its nodes have no tags',
    )
    this.#depth = finality.depth
  }

  raise(head: Height): Height | null {
    const height = head - this.#depth
    if (height > (this.#height ?? -1)) this.#height = height as Height
    return this.#height
  }
}

/** `status` knows no parent hash, so the header is asked for too. */
async function readHead({ endpoint }: VerifiedEndpoint, signal?: AbortSignal): Promise<BlockRef> {
  const { latest } = await endpoint.status(signal)
  if (latest === null) throw endpoint.unavailable('it has no block yet')
  for (const pauseMs of [0, ...LAG_PAUSES_MS]) {
    await pause(pauseMs, signal)
    const header = await readHeader(endpoint, latest.height, signal)
    if (header === null) continue // behind the same address another node answered, which is a moment behind
    if (header.ref.hash === latest.hash) return header.ref
    throw endpoint.malformed(
      'status',
      `its head ${latest.height} is ${latest.hash}, but the header is ${header.ref.hash}`,
    )
  }
  throw endpoint.unavailable(`it says that its head is ${latest.height}, but does not give its header`)
}

async function readBlockOfTransaction(
  { endpoint }: VerifiedEndpoint,
  txHash: Hex,
  signal?: AbortSignal,
): Promise<BlockRef | null> {
  const params = { hash: Buffer.from(txHash.slice(2), 'hex').toString('base64') }
  let found: ReturnType<typeof parseTx>
  try {
    found = await endpoint.ask('tx', params, parseTx, signal)
  } catch (error) {
    if (endpoint.refusal('tx', error, 0 as Height) === 'unknown transaction') return null
    throw error
  }
  if (found.hash !== txHash.toLowerCase())
    throw endpoint.malformed('tx', `it is of ${found.hash}, not of ${txHash}`)
  const header = await readHeader(endpoint, found.height, signal)
  if (header === null)
    throw endpoint.malformed('tx', `it is in block ${found.height}, which the node does not have`)
  return header.ref
}
