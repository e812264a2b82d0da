import { createHash } from 'node:crypto'
import { type BlockRef, formatTime, type Height, type Hex, parseTime, type TimeUs } from '@lockstep/domain'
import { buildBlock, type CometBlockScript } from './build-block.js'
import type { CometChainView, ServedBlock } from './comet-wire.js'

export interface SimulatedCometChainOptions {
  readonly chainId: string
  /** Decides the shape of answers: `0.34.…` (attributes in base64), `0.37.…`, `0.38.…`, `1.…`. */
  readonly version: string
  /** Height of the first block; default 1. */
  readonly initialHeight?: number
}

/**
 * A CometBFT chain that a test writes. Real ones never fork; this one does on demand, as operators who roll a chain
 * back do. Hashes depend on the content, the parent and the branch alone, so that runs repeat.
 */
export class SimulatedCometChain implements CometChainView {
  readonly chainId: string
  readonly version: string
  readonly initialHeight: number
  readonly #blocks: ServedBlock[] = []
  /** Rises with each rollback: a new branch has new hashes even where its blocks say the same. */
  #branch = 0

  constructor(options: SimulatedCometChainOptions) {
    this.chainId = options.chainId
    this.version = options.version
    this.initialHeight = options.initialHeight ?? 1
  }

  get head(): number {
    return this.#blocks.length === 0 ? 0 : this.initialHeight + this.#blocks.length - 1
  }

  at(height: number): ServedBlock | null {
    return this.#blocks[height - this.initialHeight] ?? null
  }

  /** Adds blocks on top. Times are taken as they are: equal and falling ones too. */
  extend(blocks: readonly CometBlockScript[]): void {
    for (const script of blocks) {
      const height = this.initialHeight + this.#blocks.length
      const parent = this.#blocks.at(-1)?.block ?? null
      this.#blocks.push(
        buildBlock({
          chainId: this.chainId,
          version: this.version,
          branch: this.#branch,
          height,
          parent,
          script,
        }),
      )
    }
  }

  /** `count` empty blocks, `stepUs` apart, from the head's time on (an empty chain: from `from`). */
  extendEmpty(count: number, stepUs: bigint, from = '2024-01-01T00:00:00Z'): void {
    for (let index = 0; index < count; index += 1) {
      const head = this.at(this.head)
      const last = head === null ? null : (parseTime(head.block.block.header.time) ?? 0n)
      const time = last === null ? from : formatTime((last + stepUs) as TimeUs)
      this.extend([{ time }])
    }
  }

  /** Takes the newest `depth` blocks back and goes on with others: a new branch. */
  fork(depth: number, blocks: readonly CometBlockScript[]): void {
    this.rollback(depth)
    this.extend(blocks)
  }

  /** Takes the newest `depth` blocks back. What is added later on this height has another hash. */
  rollback(depth: number): void {
    if (depth > this.#blocks.length)
      throw new RangeError(`the chain has ${this.#blocks.length} blocks, not ${depth}`)
    this.#blocks.splice(this.#blocks.length - depth, depth)
    this.#branch += 1
  }

  /** The block as a source should give it. */
  ref(height: number): BlockRef {
    const served = this.at(height)
    if (served === null) throw new RangeError(`the chain has no block ${height}`)
    const { block_id, block } = served.block
    const time = parseTime(block.header.time)
    if (time === null) throw new RangeError(`block ${height} has no proper time: ${block.header.time}`)
    const parent = block.header.last_block_id.hash
    return {
      height: height as Height,
      hash: `0x${block_id.hash.toLowerCase()}`,
      parentHash: parent === '' ? null : `0x${parent.toLowerCase()}`,
      time,
    }
  }

  /** Hash of a block's transaction: SHA-256 of its bytes. */
  txHash(height: number, index: number): Hex {
    const tx = this.at(height)?.block.block.data.txs?.[index]
    if (tx === undefined) throw new RangeError(`block ${height} has no transaction ${index}`)
    return `0x${createHash('sha256').update(Buffer.from(tx, 'base64')).digest('hex')}`
  }
}
