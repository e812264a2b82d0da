import { createHash } from 'node:crypto'
import type { ChainOptions } from '@lockstep/config'
import {
  type BlockRef,
  type ChainKey,
  type EventFact,
  type Height,
  type Hex,
  hexOf,
  NO_BYTES,
  type TimeUs,
  TX_INDEX_BEGIN_BLOCK,
  TX_INDEX_END_BLOCK,
  timeFromSeconds,
} from '@lockstep/domain'
import { cosmosChainOptions, evmChainOptions } from '@lockstep/testkit'
import type { Random } from './random.js'

/** A block of the model, with its way back to the chain's first. */
export interface ModelBlock {
  readonly ref: BlockRef
  readonly events: readonly EventFact[]
  readonly parent: ModelBlock | null
}

/** How block times go. */
export interface Pace {
  readonly stepUs: number
  /** Probabilities that a block has its parent's time, or an earlier one. */
  readonly equal: number
  readonly falling: number
}

/** Where all chains begin. */
const ORIGIN: TimeUs = timeFromSeconds(1_700_000_000)

/**
 * A chain that knows every block it ever had, so that whatever is stored can be judged: by its hash each block tells
 * the branch that it stands on.
 */
export class ModelChain {
  readonly options: ChainOptions
  readonly #everything = new Map<Hex, ModelBlock>()
  #head: ModelBlock | null = null
  /** Before the last fork: what a lying node still gives. */
  #abandoned: ModelBlock | null = null
  #made = 0
  #highest = -1
  #finalized = -1

  constructor(
    readonly chain: ChainKey,
    readonly kind: ChainOptions['kind'],
    readonly pace: Pace,
    readonly finalizedDepth: number,
    readonly random: Random,
    given: {
      readonly startHeight: Height
      readonly endHeight: Height | null
      readonly blocks: 'events' | 'all'
    },
  ) {
    const common = { chain, rpc: ['http://127.0.0.1:9'], pollMs: 700, rollbackDepthMax: 64, ...given }
    this.options = kind === 'evm' ? evmChainOptions(common) : cosmosChainOptions(common)
  }

  get head(): ModelBlock {
    return this.#head as ModelBlock // chains are never empty once they are made
  }

  get abandoned(): ModelBlock {
    return this.#abandoned ?? this.head
  }

  /** The newest height that was ever as deep as the chain's finality asks. */
  get finalized(): number {
    return this.#finalized
  }

  byHash(hash: Hex): ModelBlock | null {
    return this.#everything.get(hash) ?? null
  }

  extend(count: number): void {
    for (let index = 0; index < count; index++) this.#head = this.#make(this.#head)
    this.#finalized = Math.max(this.#finalized, this.head.ref.height - this.finalizedDepth)
  }

  /** Takes the newest `depth` blocks away and grows `count` others: the new head may lie below the old one. */
  fork(depth: number, count: number): void {
    this.#highest = Math.max(this.#highest, this.head.ref.height)
    this.#abandoned = this.head
    this.#head = at(this.head, this.head.ref.height - depth)
    this.extend(count)
  }

  /** The branch that was left last is the chain again, as after a node's lie. */
  forkBack(): void {
    const left = this.head
    this.#highest = Math.max(this.#highest, left.ref.height)
    this.#head = this.abandoned
    this.#abandoned = left
    this.#finalized = Math.max(this.#finalized, this.head.ref.height - this.finalizedDepth)
  }

  /** Grows above every head it ever had: a node with a lower head proves no fork, so its chain is waited for. */
  outgrow(): void {
    if (this.head.ref.height <= this.#highest) this.extend(this.#highest + 1 - this.head.ref.height)
  }

  /** Blocks that may go without the chain's first ones, which hold events: a fork point is always stored. */
  get depthMax(): number {
    return Math.max(0, this.head.ref.height - (this.options.startHeight + 2))
  }

  #make(parent: ModelBlock | null): ModelBlock {
    this.#made += 1
    const height = (parent === null ? this.#firstHeight : parent.ref.height + 1) as Height
    const hash = hashOf(`${this.chain}/${this.#made}/${height}`)
    const time = parent === null ? ORIGIN : this.#timeAfter(parent.ref.time)
    const ref: BlockRef = { height, hash, parentHash: parent?.ref.hash ?? this.#noParent, time }
    const block = { ref, events: this.#events(height), parent }
    this.#everything.set(hash, block)
    return block
  }

  get #firstHeight(): number {
    return this.kind === 'evm' ? 0 : 1
  }

  get #noParent(): Hex | null {
    return this.kind === 'evm' ? hexOf(new Uint8Array(32)) : null
  }

  #timeAfter(before: TimeUs): TimeUs {
    const { random, pace } = this
    if (random.chance(pace.equal)) return before
    const whole = this.kind === 'evm' ? 1_000_000 : 1
    const step = Math.max(1, Math.round((pace.stepUs * (0.5 + random.next())) / whole)) * whole
    return (before + BigInt(random.chance(pace.falling) ? -step : step)) as TimeUs
  }

  #events(height: number): EventFact[] {
    const early = height <= this.options.startHeight + 2
    const count = early ? 1 : this.random.pick([0, 0, 0, 1, 1, 2, 3])
    return Array.from({ length: count }, (_, index) =>
      this.kind === 'evm' ? this.#evmEvent(index) : this.#cosmosEvent(index, count),
    )
  }

  /** Few transactions, so that one often comes back on another branch, at another height or position. */
  #txHash(): Hex {
    return hashOf(`${this.chain} transaction ${this.random.below(40)}`)
  }

  #evmEvent(index: number): EventFact {
    const value = this.random.below(1000)
    return {
      txIndex: index >> 1,
      eventIndex: index,
      txHash: this.#txHash(),
      contract: 'token',
      address: `0x${'70'.repeat(20)}`,
      name: 'Transfer',
      args: { value: String(value) },
      raw: { topics: [hashOf('Transfer'), hashOf(String(value))], data: NO_BYTES },
      undecoded: null,
    }
  }

  #cosmosEvent(index: number, count: number): EventFact {
    const outside = index === 0 ? TX_INDEX_BEGIN_BLOCK : index === count - 1 ? TX_INDEX_END_BLOCK : null
    const value = this.random.below(1000)
    return {
      txIndex: outside ?? 0,
      eventIndex: index,
      txHash: outside === null ? this.#txHash() : NO_BYTES,
      contract: 'all',
      address: null,
      name: 'transfer',
      args: outside === null ? null : { amount: String(value) },
      raw: { topics: [], data: hexOf(Buffer.from(`[${value}]`)) },
      undecoded: outside === null ? 'does not fit' : null,
    }
  }
}

/** The block at a height of the branch that ends in `head`. */
export function at(head: ModelBlock, height: number): ModelBlock | null {
  let block: ModelBlock | null = head
  while (block !== null && block.ref.height > height) block = block.parent
  return block?.ref.height === height ? block : null
}

/** The branch up to `head`, from `from` on, lowest first. */
export function branch(head: ModelBlock | null, from: number): ModelBlock[] {
  const blocks: ModelBlock[] = []
  for (let block = head; block !== null && block.ref.height >= from; block = block.parent) blocks.push(block)
  return blocks.reverse()
}

const hashOf = (text: string): Hex => `0x${createHash('sha256').update(text).digest('hex')}`
