import { createHash } from 'node:crypto'
import { type AbiParameter, toEventSelector, toEventSignature } from 'viem'
import type { FilterSelection } from './filter-selection.js'
import type {
  ChainOptions,
  CosmosContractOptions,
  CosmosEventFilter,
  EvmContractOptions,
  EvmEventOptions,
  FactoryOptions,
} from './options.js'

/*
 * What decides the facts, in a form that is the same for configs that mean the same. The order of contracts counts,
 * since a log that fits two belongs to the first; that of addresses and events does not. Parameter names count:
 * they are the keys of `args`.
 */

/** One event of one contract: the smallest part of a config that facts can be fetched for by itself. */
export interface FilterOptions {
  /** Digest of all that decides its facts: equal digests, equal facts. */
  readonly filter: string
  /** Key under `contracts:`. */
  readonly contract: string
  /** EVM: its signature. Cosmos: its type and action; `*`: events of every type. */
  readonly event: string
  /** `EventFact.name` of its facts; null: any. */
  readonly name: string | null
  /** Where it may meet others: a log that fits two belongs to the first. */
  readonly selection: FilterSelection
  /** Filters whose events tell of the contracts that it is looked for at; empty: it needs no other. */
  readonly toldBy: readonly string[]
}

/** In the order of the file: a log that fits two filters belongs to the first. */
export function filtersOf(chain: ChainOptions): FilterOptions[] {
  if (chain.kind === 'evm') {
    return chain.contracts.flatMap((contract) =>
      contract.events.map((event) => ({
        filter: evmFilter(contract, event),
        contract: contract.contract,
        event: toEventSignature(event),
        name: factName(contract, event),
        selection: {
          event: event.anonymous === true ? null : toEventSelector(event),
          action: null,
          addresses: contract.addresses,
        },
        toldBy: factoryFilters(contract),
      })),
    )
  }
  return chain.contracts.flatMap((contract) =>
    (contract.events ?? [null]).map((event) => ({
      filter: cosmosFilter(contract, event),
      contract: contract.contract,
      event: event === null ? '*' : event.action === null ? event.type : `${event.type}/${event.action}`,
      name: event === null ? null : event.type,
      selection: {
        event: event === null ? null : event.type,
        action: event === null ? null : event.action,
        addresses: contract.address === null ? null : [contract.address],
      },
      toldBy: [],
    })),
  )
}

/** An event whose contract has another of the same name is told from it by its signature. */
function factName({ events }: EvmContractOptions, event: EvmEventOptions): string {
  const signature = toEventSignature(event)
  const overloaded = events.some(
    (other) => other.name === event.name && toEventSignature(other) !== signature,
  )
  return overloaded ? signature : event.name
}

const factoryFilters = ({ factory }: EvmContractOptions): string[] =>
  factory === undefined
    ? []
    : factory.of.events
        .filter((event) => toEventSignature(event) === factory.event)
        .map((event) => evmFilter(factory.of, event))

export const evmFilter = (contract: EvmContractOptions, event: EvmEventOptions): string =>
  sha256({
    kind: 'evm',
    ...canonicalEvm(contract),
    events: canonicalEvent(event),
    name: factName(contract, event),
  })

/** @param event null: events of every type */
export const cosmosFilter = (contract: CosmosContractOptions, event: CosmosEventFilter | null): string =>
  sha256({ kind: 'cosmos', ...canonicalCosmos(contract), events: event && [event.type, event.action] })

/** What becomes a fact beside events. */
type Extent = Pick<ChainOptions, 'blocks' | 'transactions'>

export const evmFilterDigest = (extent: Extent, contracts: readonly EvmContractOptions[]): string =>
  sha256({ kind: 'evm', ...canonicalExtent(extent), contracts: contracts.map(canonicalEvm) })

export const cosmosFilterDigest = (extent: Extent, contracts: readonly CosmosContractOptions[]): string =>
  sha256({ kind: 'cosmos', ...canonicalExtent(extent), contracts: contracts.map(canonicalCosmos) })

/** A setting at its default is left out: databases from before there was such a setting keep their digest. */
const canonicalExtent = ({ blocks, transactions }: Extent) => ({
  blocks,
  ...(transactions && { transactions }),
})

const canonicalEvm = (contract: EvmContractOptions) => ({
  contract: contract.contract,
  ...canonicalWhose(contract),
  events: contract.events.map(canonicalEvent).sort(),
})

const canonicalWhose = ({ addresses, factory }: EvmContractOptions): object => ({
  addresses: addresses === null ? null : [...addresses].sort(),
  ...(factory && { factory: canonicalFactory(factory) }),
})

/** Another factory, or another choice of its events, has other children. What else of it is indexed has no part. */
const canonicalFactory = ({ of, event, argument }: FactoryOptions): object => ({
  ...canonicalWhose(of),
  events: of.events
    .filter((each) => toEventSignature(each) === event)
    .map(canonicalEvent)
    .sort(),
  argument,
})

const canonicalEvent = (event: EvmEventOptions): string =>
  JSON.stringify([
    toEventSignature(event),
    event.anonymous === true,
    event.inputs.map(canonicalParameter),
    ...(event.where ? [event.where.map((filter) => JSON.stringify(filter)).sort()] : []),
  ])

/** Without `internalType`, which decides nothing. */
function canonicalParameter(parameter: AbiParameter & { indexed?: boolean | undefined }): unknown {
  const components = 'components' in parameter ? parameter.components : []
  return [
    parameter.type,
    parameter.name ?? '',
    parameter.indexed === true,
    components.map(canonicalParameter),
  ]
}

const canonicalCosmos = ({ contract, address, events, failedTransactions }: CosmosContractOptions) => ({
  contract,
  address,
  ...(failedTransactions && { failedTransactions }), // only where set: what was indexed before it came has no such key
  events:
    events === null
      ? null
      : [...new Set(events.map(({ type, action }) => JSON.stringify([type, action])))].sort(),
})

// The keys above are written in one fixed order, and JSON.stringify keeps it.
const sha256 = (value: unknown): string => createHash('sha256').update(JSON.stringify(value)).digest('hex')
