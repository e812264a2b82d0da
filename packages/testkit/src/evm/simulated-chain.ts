import type { Hex } from '@lockstep/domain'
import type { ServedBlock, ServedChain } from './served-chain.js'
import { type BlockWish, makeBlock } from './simulated-block.js'

export interface SimulatedEvmChainOptions {
  readonly chainId: number
  /** Chains with different seeds share no hash. Default 0. */
  readonly seed?: number
  /** Height of the block that is there at the start. Default 0. */
  readonly firstHeight?: number
  /** Its time, in seconds. Default 1,700,000,000. */
  readonly firstTime?: number
  /** Seconds between blocks whose time is not given. Default 12. */
  readonly blockTime?: number
}

const GENESIS_TIME = 1_700_000_000
const BLOCK_TIME = 12
const NO_PARENT: Hex = `0x${'0'.repeat(64)}`

/** A chain that a test writes. Apart from the node, so that several nodes may serve one chain. */
export class SimulatedEvmChain implements ServedChain {
  readonly chainId: number
  /** How many blocks below the head the tags lie; null: the node has no such block. */
  finalizedDepth: number | null = 64
  safeDepth: number | null = 32

  readonly #options: SimulatedEvmChainOptions
  readonly #blockTime: number
  readonly #firstHeight: number
  #blocks: ServedBlock[]
  #byHash = new Map<string, ServedBlock>()
  #byTransaction = new Map<string, ServedBlock>()
  #branch = 0
  readonly #listeners = new Set<(block: ServedBlock) => void>()

  constructor(options: SimulatedEvmChainOptions) {
    this.chainId = options.chainId
    this.#options = options
    this.#blockTime = options.blockTime ?? BLOCK_TIME
    this.#firstHeight = options.firstHeight ?? 0
    this.#blocks = []
    this.#append({ time: options.firstTime ?? GENESIS_TIME }, NO_PARENT, this.#firstHeight)
  }

  get head(): ServedBlock {
    return this.#blocks.at(-1) as ServedBlock // the first block never goes
  }

  get first(): ServedBlock {
    return this.#blocks[0] as ServedBlock
  }

  get finalized(): number | null {
    return this.#tag(this.finalizedDepth)
  }

  get safe(): number | null {
    return this.#tag(this.safeDepth)
  }

  /** Adds blocks on the head, so many empty ones or those that are described; gives them. */
  extend(wishes: number | readonly BlockWish[]): ServedBlock[] {
    return wishesOf(wishes).map((wish) => this.#append(wish, this.head.hash, this.head.number + 1))
  }

  /**
   * Replaces the last `depth` blocks by others with new hashes, as many unless others are described. Their content
   * is that of the wishes alone: transactions of the old branch are in it only where they are given again.
   */
  fork(depth: number, wishes: number | readonly BlockWish[] = depth): ServedBlock[] {
    this.rollback(depth)
    return this.extend(wishes)
  }

  /** Takes the last `depth` blocks away; what comes after has new hashes even with the same content. */
  rollback(depth: number): void {
    if (depth < 0 || depth >= this.#blocks.length)
      throw new RangeError(`cannot take ${depth} blocks of this chain`)
    for (const block of this.#blocks.splice(this.#blocks.length - depth)) {
      for (const { hash } of block.transactions) this.#byTransaction.delete(String(hash))
    }
    this.#branch += 1
  }

  at(height: number): ServedBlock | null {
    return this.#blocks[height - this.#firstHeight] ?? null
  }

  byHash(hash: string): ServedBlock | null {
    return this.#byHash.get(hash.toLowerCase()) ?? null
  }

  byTransaction(txHash: string): ServedBlock | null {
    return this.#byTransaction.get(txHash.toLowerCase()) ?? null
  }

  onBlock(listener: (block: ServedBlock) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  snapshot(): ServedChain {
    const copy = new SimulatedEvmChain(this.#options)
    copy.#blocks = [...this.#blocks]
    copy.#byHash = new Map(this.#byHash)
    copy.#byTransaction = new Map(this.#byTransaction)
    copy.finalizedDepth = this.finalizedDepth
    copy.safeDepth = this.safeDepth
    return copy
  }

  #append(wish: BlockWish, parentHash: Hex, number: number): ServedBlock {
    const time = wish.time ?? this.head.time + this.#blockTime
    const salt = `${this.#options.seed ?? 0}/${this.#branch}`
    const block = makeBlock({ chainId: this.chainId, number, parentHash, time, salt }, wish)
    this.#blocks.push(block)
    this.#byHash.set(block.hash, block)
    for (const { hash } of block.transactions) this.#byTransaction.set(String(hash), block)
    for (const listener of this.#listeners) listener(block)
    return block
  }

  #tag(depth: number | null): number | null {
    const height = depth === null ? null : this.head.number - depth
    return height === null || height < this.#firstHeight ? null : height
  }
}

const wishesOf = (wishes: number | readonly BlockWish[]): readonly BlockWish[] =>
  typeof wishes === 'number' ? Array.from({ length: wishes }, () => ({})) : wishes
