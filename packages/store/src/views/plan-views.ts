import {
  type ChainOptions,
  type CosmosChainOptions,
  type CosmosContractOptions,
  type CosmosEventFilter,
  type EvmChainOptions,
  type EvmContractOptions,
  type EvmEvent,
  evmEvent,
} from '@lockstep/config'
import type { ChainKey } from '@lockstep/domain'
import { quoteText } from '../names.js'
import { type Column, cosmosColumns, evmColumns } from './columns.js'
import { distinctNames } from './identifiers.js'

/** One event of one contract, as a view that people query; of several chains where it is the same on them. */
export interface TypedView {
  readonly name: string
  readonly chains: readonly ChainKey[]
  /** Which rows of `event`, its chain aside; over its columns, without a table's name: an index has the same. */
  readonly predicate: string
  readonly columns: readonly Column[]
  readonly comment: string
  /** Which columns are asked to have an index, on which chain. */
  readonly indexes: readonly { readonly chain: ChainKey; readonly column: Column }[]
}

/** What one chain wants; those of several chains become one view where they are the same. */
interface Wish {
  readonly chain: ChainKey
  readonly contract: string
  /** The event's part of the view's name. */
  readonly label: string
  /** The event in full. */
  readonly event: string
  readonly predicate: string
  readonly columns: readonly Column[]
  readonly index: readonly string[]
}

/**
 * The typed views of a config. A contract that has the same key on several chains has one view per event over all of
 * them where predicate and columns agree, else one per chain, with the chain's key at the end of its name.
 */
export function planViews(chains: readonly ChainOptions[]): TypedView[] {
  const groups = new Map<string, Wish[]>()
  for (const wish of chains.flatMap(wishesOf)) {
    const key = JSON.stringify([wish.contract, wish.label])
    groups.set(key, [...(groups.get(key) ?? []), wish])
  }
  const split = [...groups.values()].flatMap((wishes) =>
    allAgree(wishes) ? [wishes] : wishes.map((each) => [each]),
  )
  const names = distinctNames(split.map((wishes) => nameOf(wishes, groups)))
  return split.map((wishes, index) => viewOf(names[index] as string, wishes))
}

const wishesOf = (chain: ChainOptions): Wish[] =>
  chain.kind === 'evm'
    ? chain.contracts.flatMap((contract) => evmWishes(chain, contract))
    : chain.contracts.flatMap((contract) => cosmosWishes(chain, contract))

const shapeOf = ({ predicate, columns }: Wish): string =>
  JSON.stringify([predicate, columns.map(({ name, type, expression }) => [name, type, expression])])

const allAgree = (wishes: readonly Wish[]): boolean => new Set(wishes.map(shapeOf)).size === 1

function nameOf(wishes: readonly Wish[], groups: ReadonlyMap<string, readonly Wish[]>) {
  const [{ chain, contract, label, event }] = wishes as [Wish]
  const group = groups.get(JSON.stringify([contract, label])) ?? []
  const suffix = group.length > wishes.length ? `_${chain}` : ''
  return { words: `${contract}_${label}${suffix}`, stands: JSON.stringify([contract, event, suffix]) }
}

function viewOf(name: string, wishes: readonly Wish[]): TypedView {
  const [{ contract, event, predicate, columns }] = wishes as [Wish]
  const chains = [...new Set(wishes.map(({ chain }) => chain))]
  const comment =
    `Event ${event} of contract "${contract}" on ${chains.join(', ')}. Made from the config. Hides what a running ` +
    'rewind takes away. Events that do not fit their ABI are left out: they are in "events", with the reason in "undecoded".'
  const indexes = wishes.flatMap(({ chain, index }) =>
    columns.flatMap((column) =>
      column.key !== null && column.index !== null && index.includes(column.key) ? [{ chain, column }] : [],
    ),
  )
  return { name, chains, predicate, columns, comment, indexes }
}

const indexOf = (chain: ChainOptions, contract: string): readonly string[] =>
  chain.queries.find((query) => query.contract === contract)?.index ?? []

function evmWishes(chain: EvmChainOptions, contract: EvmContractOptions): Wish[] {
  const events = contract.events.map(evmEvent)
  return events.map((event) => ({
    chain: chain.chain,
    contract: contract.contract,
    label: evmLabel(event, events),
    event: event.declaration,
    predicate: evmPredicate(contract.contract, event, events),
    columns: evmColumns(event),
    index: indexOf(chain, contract.contract),
  }))
}

/** Its name; with its types where the contract has overloads; with its topics where two differ in these alone. */
function evmLabel(event: EvmEvent, all: readonly EvmEvent[]): string {
  const named = all.filter(({ name }) => name === event.name)
  const overloaded = named.some(({ signature }) => signature !== event.signature)
  const twins = named.filter(({ signature }) => signature === event.signature)
  const anonymous = event.topic0 === null ? '_anonymous' : ''
  const indexed = `_indexed_${event.inputs.filter((input) => input.indexed).length}`
  return `${overloaded ? event.signature : event.name}${twins.length > 1 ? `${indexed}${anonymous}` : ''}`
}

/**
 * By topic as well as by name: that alone says which types the arguments have. Both names that facts may carry count, so
 * that an overload that joins its contract later takes no row away.
 */
function evmPredicate(contract: string, event: EvmEvent, all: readonly EvmEvent[]): string {
  const twins = all.filter(({ signature }) => signature === event.signature)
  const isTopic = event.topic0 === null ? '' : ` and topic0 = '\\x${event.topic0.slice(2)}'::bytea`
  const hasTopics =
    twins.length > 1 ? ` and num_nonnulls(topic0, topic1, topic2, topic3) = ${event.topics}` : ''
  return (
    `contract = ${quoteText(contract)} and name in (${quoteText(event.name)}, ${quoteText(event.signature)})` +
    `${isTopic}${hasTopics} and args is not null`
  )
}

function cosmosWishes(chain: CosmosChainOptions, contract: CosmosContractOptions): Wish[] {
  const attributes = chain.queries.find((query) => query.contract === contract.contract)?.attributes ?? []
  return (contract.events ?? [null]).map((event) => ({
    chain: chain.chain,
    contract: contract.contract,
    label: event === null ? 'events' : event.action === null ? event.type : `${event.type}_${event.action}`,
    event:
      event === null ? 'of every type' : event.action === null ? event.type : `${event.type}/${event.action}`,
    predicate: cosmosPredicate(contract.contract, event),
    columns: cosmosColumns(attributes, event === null),
    index: indexOf(chain, contract.contract),
  }))
}

function cosmosPredicate(contract: string, event: CosmosEventFilter | null): string {
  const isType = event === null ? '' : ` and name = ${quoteText(event.type)}`
  // Also of a list: an event may have several actions.
  const isAction = event?.action ? ` and args -> 'action' ? ${quoteText(event.action)}` : ''
  return `contract = ${quoteText(contract)}${isType}${isAction} and args is not null`
}
