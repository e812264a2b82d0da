import type { Hex } from '@lockstep/domain'

/** A JSON object as it goes over the wire. */
export type RpcObject = { readonly [field: string]: unknown }

/** A log with the fields that `eth_getLogs` filters by; the others go out as they are. */
export interface ServedLog extends RpcObject {
  readonly address: Hex
  readonly topics: readonly Hex[]
}

/** A block in the shapes that a node answers with. */
export interface ServedBlock {
  readonly number: number
  readonly hash: Hex
  readonly parentHash: Hex
  /** Seconds. */
  readonly time: number
  /** The block without `transactions`. */
  readonly header: RpcObject
  /** In order, each with its `hash`. */
  readonly transactions: readonly RpcObject[]
  readonly receipts: readonly RpcObject[]
  /** In order of the log index. */
  readonly logs: readonly ServedLog[]
}

/** What a simulated node serves. Heights that are missing are answered with null. */
export interface ServedChain {
  readonly chainId: number
  readonly head: ServedBlock
  /** The lowest block that is there. */
  readonly first: ServedBlock
  /** Heights of the tags; null: the node answers null. */
  readonly finalized: number | null
  readonly safe: number | null
  at(height: number): ServedBlock | null
  /** Also a block that the chain left, as real nodes keep it for a while. */
  byHash(hash: string): ServedBlock | null
  byTransaction(txHash: string): ServedBlock | null
  /** Calls for each block that comes, on whatever branch, until the returned function is called. */
  onBlock(listener: (block: ServedBlock) => void): () => void
  /** The chain as it is now, whatever becomes of it. */
  snapshot(): ServedChain
}

/** `"0x10"` for 16. */
export const quantity = (value: number | bigint): Hex => `0x${value.toString(16)}`
