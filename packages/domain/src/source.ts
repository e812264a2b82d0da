import type { BlockRef, SourceBlock } from './block.js'
import type { KnownChildren } from './known-children.js'
import type { ChainKey, Height, Hex } from './scalars.js'

/** What a node says of its newest blocks, in one look. */
export interface ChainTip {
  readonly head: BlockRef
  /** The newest height that the chain will not take back, by the chain's `finality` setting; null: none yet. */
  readonly finalized: Height | null
}

/** A stretch of the chain, below the finalized height, with all its events. */
export interface SourceRange {
  /** The block at the range's lowest height: its parent must be the checkpoint. */
  readonly first: BlockRef
  /** Ascending. The blocks that hold an event, or all where `blocks: all` is configured. */
  readonly blocks: readonly SourceBlock[]
  /** The block at the range's highest height: the next checkpoint. */
  readonly last: BlockRef
}

/** What of a chain `block` and `range` give. */
export interface SourceWish {
  /** Of heights below those that are asked for; those within them are found on the way. */
  readonly children: KnownChildren
  /** Digests of the filters whose events are wanted, others are passed over; null: all of the config. */
  readonly only: ReadonlySet<string> | null
}

/**
 * One chain's nodes, behind which nothing knows RPC. Implemented by `source-evm` and `source-cosmos`.
 *
 * Every method may throw `RpcUnavailableError`, `MalformedAnswerError`, `WrongChainError` and `HeightPrunedError`.
 * `null` means that the node answered and has no such block: it may be behind, so it never proves a fork.
 * An aborted `signal` makes the call reject soon, whatever the node does.
 */
export interface ChainSource {
  readonly chain: ChainKey
  /**
   * Proves that an endpoint answers and is of the configured chain; an endpoint of another chain is refused.
   * Every other method does so by itself before an endpoint's first use.
   */
  check(signal?: AbortSignal): Promise<void>
  tip(signal?: AbortSignal): Promise<ChainTip>
  header(height: Height, signal?: AbortSignal): Promise<BlockRef | null>
  /** Header and events of one block, both proved to be of the same block hash. */
  block(height: Height, signal?: AbortSignal): Promise<SourceBlock | null>
  /** @throws MalformedAnswerError where the answers contradict each other (the chain moved meanwhile): ask again */
  range(from: Height, to: Height, signal?: AbortSignal): Promise<SourceRange>
  /** The same nodes, asked for something else than all filters without known children. `close` stays the original's. */
  asking(wish: SourceWish): ChainSource
  /** The block that holds the transaction; null where the node does not know it. */
  blockOfTransaction(txHash: Hex, signal?: AbortSignal): Promise<BlockRef | null>
  /**
   * Calls `listener` when a node announces a new head, where the config names one that does, until the returned
   * function is called. Only a hint: announcements may come late, twice, of another branch, or never, and what is
   * asked next may not know the block yet. Whoever follows the chain asks for `tip` at intervals all the same.
   */
  onHead(listener: () => void): () => void
  /** What a person should know of the nodes while others of them serve, in one line; null: all are well. */
  trouble(): string | null
  /** Ends connections and makes what is in flight reject. */
  close(): Promise<void>
}
