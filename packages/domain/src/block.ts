import type { Height, Hex, TimeUs } from './scalars.js'

/** What links blocks: enough to check a parent, find a cut and follow a fork. */
export interface BlockRef {
  readonly height: Height
  readonly hash: Hex
  /** Null only for a chain's first block, and for a Cosmos block with an empty `last_block_id`. */
  readonly parentHash: Hex | null
  readonly time: TimeUs
}

export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue }
export type JsonObject = { readonly [key: string]: JsonValue }

/** `tx_index` of events outside transactions, chosen so that position order is the order of execution. */
export const TX_INDEX_BEGIN_BLOCK = -1
export const TX_INDEX_END_BLOCK = 2_147_483_647

/** One normalised observation: an EVM log or a Cosmos ABCI event. */
export interface EventFact {
  /** Index of its transaction in the block; `TX_INDEX_BEGIN_BLOCK` and `TX_INDEX_END_BLOCK` outside of them. */
  readonly txIndex: number
  /** EVM: the node's `logIndex`. Cosmos: the index in that transaction's or phase's list, of all its events. */
  readonly eventIndex: number
  /** `NO_BYTES` where there is no transaction. */
  readonly txHash: Hex
  /** Key under `contracts:` in the config. */
  readonly contract: string
  /** EVM: lower-case with 0x. Cosmos: bech32; null for an event that names no contract. */
  readonly address: string | null
  /** The event's name in its ABI, or its Cosmos type. */
  readonly name: string
  /** Integers of any width are decimal strings, bytes are 0x hex. Null where `undecoded` says why. */
  readonly args: JsonObject | null
  /** As it came. EVM: topics and data. Cosmos: no topics; data is the UTF-8 JSON of the attribute list. */
  readonly raw: { readonly topics: readonly Hex[]; readonly data: Hex }
  /** Why `args` is null: the log does not fit its ABI. Null where it does. */
  readonly undecoded: string | null
}

/** A contract that a factory created: known from the event that tells of it, indexed from that event's block on. */
export interface ChildContract {
  /** Key under `contracts:` of the children, not of the factory. */
  readonly contract: string
  /** As `EventFact.address`. */
  readonly address: string
  /** Position of the event that tells of it. */
  readonly txIndex: number
  readonly eventIndex: number
}

/** A transaction that holds an event of the block; only where the chain's `transactions` asks for them. */
export interface TransactionFact {
  readonly txIndex: number
  readonly txHash: Hex
  /** Null where the chain did not say (Ethereum before Byzantium). */
  readonly success: boolean | null
  /** Cosmos: the result's code, 0 for success. Null: EVM. */
  readonly code: number | null
  /** Who sent it, and to whom: lower-case addresses. Null: Cosmos; `to` also where a contract was created. */
  readonly from: string | null
  readonly to: string | null
  /** Wei, decimal. Null: Cosmos. */
  readonly value: string | null
  /** Decimal. EVM: the gas limit, and what was used. */
  readonly gasWanted: string | null
  readonly gasUsed: string | null
  /**
   * Cosmos: the coins as `[{denom, amount}]`, or `{undecoded: <reason>}` where the bytes are no transaction of the
   * Cosmos SDK. Null: EVM.
   */
  readonly fee: JsonValue | null
  /** Null: EVM, or bytes that are no transaction of the Cosmos SDK. */
  readonly memo: string | null
}

/** A block with those of its events that the config asks for, and what comes with them, in order of position. */
export interface SourceBlock {
  readonly ref: BlockRef
  readonly events: readonly EventFact[]
  readonly children: readonly ChildContract[]
  readonly transactions: readonly TransactionFact[]
}

/** A position's order on one chain. */
export const comparePositions = (
  a: { readonly txIndex: number; readonly eventIndex: number },
  b: { readonly txIndex: number; readonly eventIndex: number },
): number => a.txIndex - b.txIndex || a.eventIndex - b.eventIndex
