import type { ChainKey, Height, Hex } from '@lockstep/domain'
import type { AbiEvent } from 'viem'

/** `config/chains.yaml` and the environment, resolved: inside there are no unit strings and no undefined. */
export interface LockstepOptions {
  /** Absolute path of the file that was read. */
  readonly file: string
  readonly database: DatabaseOptions
  readonly rewind: RewindOptions
  readonly lease: LeaseOptions
  readonly onFork: OnFork
  /** How often a progress line is logged per chain. */
  readonly progressMs: number
  /** In the order of the file; disabled chains are left out. */
  readonly chains: readonly ChainOptions[]
}

/** After a fork of one chain: that chain goes back alone, or all chains go back to the fork point's time. */
export type OnFork = 'rollback' | 'rewind'

export interface DatabaseOptions {
  /** Null: the embedded PostgreSQL of this project. */
  readonly url: string | null
  /** Our tables. */
  readonly schema: string
  /** Views for people. */
  readonly readSchema: string
}

export interface RewindOptions {
  /** How long a request lets a chain whose worker should be alive go without a step before others take it over. */
  readonly takeOverAfterMs: number
  /** How long a worker looks for its cut over RPC before it takes what the database has. */
  readonly searchTimeoutMs: number
  /** The longest that a writing transaction may stay open: older ones are ended by who waits for them. */
  readonly writeTimeoutMs: number
  /** How often rewind state is read where no notification comes. */
  readonly pollMs: number
}

export interface LeaseOptions {
  /** A lease ends this long after its last renewal; it is renewed at a third of it. */
  readonly timeMs: number
}

/**
 * Where a chain stops taking blocks back: by the node's tag, so many blocks below the head, or, by both, by the tag
 * where it was ever answered and else by depth.
 */
export type Finality =
  | { readonly by: 'tag'; readonly tag: FinalityTag }
  | { readonly by: 'depth'; readonly depth: number }
  | { readonly by: 'both'; readonly tag: FinalityTag; readonly depth: number }

export type FinalityTag = 'finalized' | 'safe'

/** One node of a chain. Its addresses may hold secrets: never log them, use `redactUrl` of telemetry. */
export interface EndpointOptions {
  /** http(s). */
  readonly url: string
  /** ws(s), where the node announces new blocks; null: it is polled alone. */
  readonly ws: string | null
  /** Each item of a batch counts; null: no limit. */
  readonly requestsPerSecond: number | null
  readonly requestsAtOnce: number
}

interface CommonChainOptions {
  readonly chain: ChainKey
  /** EVM: decimal digits. Cosmos: the network name. */
  readonly chainId: string
  /** At least one, the preferred one first. */
  readonly rpc: readonly EndpointOptions[]
  readonly startHeight: Height
  readonly endHeight: Height | null
  readonly finality: Finality
  readonly rollbackDepthMax: number
  readonly pollMs: number
  /** Which blocks become facts: those that hold an event, or all. */
  readonly blocks: 'events' | 'all'
  /** Whether the transactions that hold an event become facts too. */
  readonly transactions: boolean
  /** Whether what a fork takes off the chain is kept, in `orphaned_event`. Decides no fact. */
  readonly keepOrphans: boolean
  /**
   * Digest of everything that decides which facts a fresh index would hold (contracts, events, ABIs, `blocks`,
   * `transactions`): two configs with equal digests give equal facts. Not of addresses of nodes, nor of timings.
   */
  readonly filterDigest: string
  /** Of the contracts that ask for something; in the order of the file. Decides no fact. */
  readonly queries: readonly ContractQuery[]
}

/** What the config asks for one contract's views, beside the columns that they have anyway. */
export interface ContractQuery {
  /** Key under `contracts:`. */
  readonly contract: string
  /** Cosmos: keys of attributes that get a column, those of `index` among them. EVM: none, arguments have theirs. */
  readonly attributes: readonly string[]
  /** Arguments or attributes that get an index. */
  readonly index: readonly string[]
}

export interface EvmChainOptions extends CommonChainOptions {
  readonly kind: 'evm'
  readonly contracts: readonly EvmContractOptions[]
}

export interface EvmContractOptions {
  /** Key under `contracts:`. */
  readonly contract: string
  /** Lower-case with 0x; null: those of `factory`, else any address. */
  readonly addresses: readonly string[] | null
  /** Left out: none. Invariant: where it is there, `addresses` is null. */
  readonly factory?: FactoryOptions
  /** The events to index. */
  readonly events: readonly EvmEventOptions[]
}

/** Contracts are known from the events of another that created them. */
export interface FactoryOptions {
  /** The factory, of the same chain; it may be a child of another. */
  readonly of: EvmContractOptions
  /** Signature of those of its events that tell of a child. */
  readonly event: string
  /** Which of their arguments is the child's address, by its key in `args`. */
  readonly argument: string
}

/** An event as its ABI has it, with which of its logs are wanted. */
export interface EvmEventOptions extends AbiEvent {
  /** Each is one way to be wanted. Left out, like what an ABI may leave out: all are. */
  readonly where?: readonly TopicFilter[]
}

/** For each indexed argument in their order the topics that it may have; null: any. */
export type TopicFilter = readonly (readonly Hex[] | null)[]

export interface CosmosChainOptions extends CommonChainOptions {
  readonly kind: 'cosmos'
  readonly contracts: readonly CosmosContractOptions[]
}

export interface CosmosContractOptions {
  readonly contract: string
  /** The wasm contract whose events are taken (attribute `_contract_address`); null: all. */
  readonly address: string | null
  /** Null: events of every type. */
  readonly events: readonly CosmosEventFilter[] | null
  /** Whether events of failed transactions are taken too; they are marked. */
  readonly failedTransactions: boolean
}

export interface CosmosEventFilter {
  /** The ABCI event's type, such as `wasm` or `transfer`. */
  readonly type: string
  /** Value of its attribute `action`; null: any. */
  readonly action: string | null
}

export type ChainOptions = EvmChainOptions | CosmosChainOptions
