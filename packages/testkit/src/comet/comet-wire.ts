/*
 * CometBFT's JSON as its nodes write it: 64-bit integers are decimal strings, hashes upper-case hex, bytes base64,
 * and an empty list is often `null`. Only what the simulated node serves.
 */

export interface WireBlockId {
  readonly hash: string
  readonly parts: { readonly total: number; readonly hash: string }
}

export interface WireHeader {
  readonly version: { readonly block: string; readonly app?: string }
  readonly chain_id: string
  readonly height: string
  readonly time: string
  readonly last_block_id: WireBlockId
  readonly last_commit_hash: string
  readonly data_hash: string
  readonly validators_hash: string
  readonly next_validators_hash: string
  readonly consensus_hash: string
  readonly app_hash: string
  readonly last_results_hash: string
  readonly evidence_hash: string
  readonly proposer_address: string
}

export interface WireBlock {
  readonly header: WireHeader
  readonly data: { readonly txs: readonly string[] | null }
  readonly evidence: { readonly evidence: readonly unknown[] }
  readonly last_commit: {
    readonly height: string
    readonly round: number
    readonly block_id: WireBlockId
    readonly signatures: readonly unknown[]
  }
}

export interface WireAttribute {
  readonly key: string | null
  readonly value: string | null
  readonly index: boolean
}

export interface WireEvent {
  readonly type: string
  readonly attributes: readonly WireAttribute[]
}

export interface WireTxResult {
  readonly code: number
  readonly data: string | null
  readonly log: string
  readonly info: string
  readonly gas_wanted: string
  readonly gas_used: string
  readonly events: readonly WireEvent[] | null
  readonly codespace: string
}

/** `begin_block_events` and `end_block_events` up to 0.37, `finalize_block_events` and `app_hash` from 0.38 on. */
export interface WireBlockResults {
  readonly height: string
  readonly txs_results: readonly WireTxResult[] | null
  readonly [member: string]: unknown
}

/** What a node stores of one height. */
export interface ServedBlock {
  readonly block: { readonly block_id: WireBlockId; readonly block: WireBlock }
  /** Null: the node never had them. */
  readonly results: WireBlockResults | null
}

/** What a node serves: a chain that a test writes, or one that was recorded. */
export interface CometChainView {
  readonly chainId: string
  /** As `status` gives it: `0.34.24`, `0.38.17`. */
  readonly version: string
  readonly initialHeight: number
  /** 0 while there is no block. */
  readonly head: number
  at(height: number): ServedBlock | null
}

export const NO_BLOCK_ID: WireBlockId = { hash: '', parts: { total: 0, hash: '' } }
