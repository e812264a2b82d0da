import type { CosmosChainOptions } from '@lockstep/config'
import {
  type BlockRef,
  type ChainSource,
  type ChainTip,
  type Height,
  type Hex,
  invariant,
  type SourceBlock,
  type SourceRange,
} from '@lockstep/domain'
import type { Logger } from '@lockstep/telemetry'
import { parseTx } from './answers.js'
import { CometEndpoint, type VerifiedEndpoint } from './comet-endpoint.js'
import { EndpointPool } from './endpoint-pool.js'
import { FetchRpcClient } from './fetch-rpc-client.js'
import { pause } from './pause.js'
import { LAG_PAUSES_MS, readBlocks } from './read-blocks.js'
import { readHeader, readHeaders } from './read-headers.js'

export interface CosmosSourceDependencies {
  readonly logger: Logger
  /** How long one request may take; default 20 s, more than a full node needs for its largest block. */
  readonly requestTimeoutMs?: number
}

/** A chain of CometBFT nodes (0.34, 0.37, 0.38, 1.x) over HTTP. Nothing is asked before the first call. */
export function createCosmosSource(options: CosmosChainOptions, deps: CosmosSourceDependencies): ChainSource {
  const endpoints = options.rpc.map(({ url }) => {
    const rpc = new FetchRpcClient(options.chain, url, deps.requestTimeoutMs ?? 20_000)
    return new CometEndpoint(rpc, options.chainId)
  })
  return new CosmosSource(options, new EndpointPool(options.chain, endpoints, deps.logger))
}

class CosmosSource implements ChainSource {
  readonly chain
  readonly #options: CosmosChainOptions
  readonly #pool: EndpointPool
  /** Invariant: never falls. A node that is behind says nothing about what is final. */
  #finalized: Height | null = null

  constructor(options: CosmosChainOptions, pool: EndpointPool) {
    this.chain = options.chain
    this.#options = options
    this.#pool = pool
  }

  check(signal?: AbortSignal): Promise<void> {
    return this.#pool.checkAll(signal)
  }

  async tip(signal?: AbortSignal): Promise<ChainTip> {
    const head = await this.#pool.run((node) => readHead(node, signal), signal)
    return { head, finalized: this.#raiseFinalized(head.height) }
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
      const [block] = await readBlocks(node, [header], this.#options.contracts, signal)
      return block ?? null
    }, signal)
  }

  range(from: Height, to: Height, signal?: AbortSignal): Promise<SourceRange> {
    invariant(from <= to, `a range is asked for from below: ${from} to ${to}`)
    return this.#pool.run(async (node) => {
      const headers = await readHeaders(node.endpoint, from, to, signal)
      const [first, last] = [headers[0], headers.at(-1)]
      if (first === undefined || last?.ref.height !== to) {
        throw node.endpoint.unavailable(`it does not have block ${to} yet`)
      }
      const blocks = await readBlocks(node, headers, this.#options.contracts, signal)
      const facts = this.#options.blocks === 'all' ? blocks : blocks.filter(({ events }) => events.length > 0)
      return { first: first.ref, blocks: facts, last: last.ref }
    }, signal)
  }

  blockOfTransaction(txHash: Hex, signal?: AbortSignal): Promise<BlockRef | null> {
    return this.#pool.run((node) => readBlockOfTransaction(node, txHash, signal), signal)
  }

  asking(): ChainSource {
    return this
  }

  onHead(): () => void {
    return () => {}
  }

  trouble(): null {
    return null
  }

  async close(): Promise<void> {
    this.#pool.close()
  }

  #raiseFinalized(head: Height): Height | null {
    const { finality } = this.#options
    invariant(
      finality.by === 'depth',
      'the config gives a Cosmos chain its finality by depth: its nodes have no tags',
    )
    const height = head - finality.depth
    if (height > (this.#finalized ?? -1)) this.#finalized = height as Height
    return this.#finalized
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
