import {
  type EvmChainOptions,
  type EvmContractOptions,
  type EvmEventOptions,
  evmFilter,
  type FactoryOptions,
} from '@lockstep/config'
import type { Hex, KnownChildren } from '@lockstep/domain'
import { toEventSelector, toEventSignature } from 'viem'
import { compileEvent, type EventDecoder } from './decode-event.js'
import { BloomReader } from './logs-bloom.js'
import type { EvmLog } from './parse-log.js'

/** One configured event of one contract entry. */
export interface WatchedEvent {
  readonly contract: string
  /** Digest of its filter, see `filtersOf`. */
  readonly filter: string
  /** The event's name in facts: its own, or its signature where the contract has overloads of that name. */
  readonly name: string
  readonly decode: EventDecoder
  /** Null: of any address, or of children. */
  readonly addresses: ReadonlySet<string> | null
  readonly ofChildren: boolean
  readonly anonymous: boolean
  /** A log is wanted whose topics fit one of these; the first topic is the signature's, save of an anonymous event. */
  readonly patterns: readonly TopicPattern[]
  /** Which contracts' children it tells of, and in which argument. */
  readonly tells: readonly { readonly contract: string; readonly argument: string }[]
}

/** For each topic in its place the values that it may have; null, and what lies beyond: any. */
export type TopicPattern = readonly (readonly Hex[] | null)[]

/** Which logs the config asks for, and as what. Made once; what is known of children comes with each question. */
export class EventIndex {
  readonly watched: readonly WatchedEvent[]
  readonly hasFactories: boolean
  readonly #byTopic = new Map<Hex, WatchedEvent[]>()
  readonly #anonymous: readonly WatchedEvent[]
  readonly #blooms = new BloomReader()

  constructor(options: EvmChainOptions) {
    const all = options.contracts.flatMap((contract) => watchedEventsOf(contract, options.contracts))
    // Entries that name addresses come before those of any address; a stable sort keeps the file's order in both.
    this.watched = all.sort((a, b) => Number(isOfAny(a)) - Number(isOfAny(b)))
    this.hasFactories = all.some(({ tells }) => tells.length > 0)
    this.#anonymous = this.watched.filter(({ anonymous }) => anonymous)
    for (const event of this.watched) {
      const topic0 = event.anonymous ? undefined : event.patterns[0]?.[0]?.[0]
      if (topic0 === undefined) continue
      const same = this.#byTopic.get(topic0)
      if (same === undefined) this.#byTopic.set(topic0, [event])
      else same.push(event)
    }
  }

  /**
   * What the log may be, best first. Anonymous events come last: any log of their address could be one, so one
   * with a known signature is that.
   */
  candidates(log: EvmLog, children: KnownChildren): WatchedEvent[] {
    const signed = log.topics[0] === undefined ? [] : (this.#byTopic.get(log.topics[0]) ?? [])
    return [...signed, ...this.#anonymous].filter((event) => takes(event, log, children))
  }

  /** Whether a block with this bloom may hold a log that one of the events takes. */
  mayHold(bloom: Hex, events: readonly WatchedEvent[], children: KnownChildren): boolean {
    const holds = (value: string): boolean => this.#blooms.mayHold(bloom, value as Hex)
    return events.some((event) => {
      const topicsFit = event.patterns.some((pattern) =>
        pattern.every((topics) => topics === null || topics.some(holds)),
      )
      return topicsFit && (isOfAny(event) || addressesOf(event, children).some(holds))
    })
  }
}

/** The addresses that an event is looked for at; of one of any address: none. */
export const addressesOf = (event: WatchedEvent, children: KnownChildren): readonly string[] =>
  event.ofChildren ? children.addressesOf(event.contract) : [...(event.addresses ?? [])]

export const isOfAny = ({ addresses, ofChildren }: WatchedEvent): boolean => addresses === null && !ofChildren

function takes(event: WatchedEvent, log: EvmLog, children: KnownChildren): boolean {
  if (event.addresses !== null && !event.addresses.has(log.address)) return false
  if (event.ofChildren) {
    const start = children.startOf(event.contract, log.address)
    if (start === null || log.blockNumber < start) return false
  }
  return event.patterns.some((pattern) =>
    pattern.every((topics, at) => topics === null || topics.includes(log.topics[at] as Hex)),
  )
}

function watchedEventsOf(contract: EvmContractOptions, all: readonly EvmContractOptions[]): WatchedEvent[] {
  const { addresses, events, factory } = contract
  if (addresses?.length === 0) return [] // in a filter an empty list would mean any
  const overloads = overloadsOf(events)
  return events.map((event) => {
    const signature = toEventSignature(event)
    return {
      contract: contract.contract,
      filter: evmFilter(contract, event),
      name: overloads.has(event.name) ? signature : event.name,
      decode: compileEvent(event),
      addresses: addresses === null ? null : new Set(addresses.map((address) => address.toLowerCase())),
      ofChildren: factory !== undefined,
      anonymous: event.anonymous === true,
      patterns: patternsOf(event),
      tells: all.flatMap((child) => (tellsOf(child.factory, contract, signature) ? [toldBy(child)] : [])),
    }
  })
}

/** Names that stand for several signatures. */
function overloadsOf(events: readonly EvmEventOptions[]): ReadonlySet<string> {
  const signatures = new Map(events.map((event) => [toEventSignature(event), event.name]))
  const seen = new Set<string>()
  return new Set([...signatures.values()].filter((name) => seen.size === seen.add(name).size))
}

function patternsOf(event: EvmEventOptions): TopicPattern[] {
  const signature: TopicPattern = event.anonymous === true ? [] : [[toEventSelector(event)]]
  return (event.where ?? [[]]).map((filter) => [...signature, ...filter])
}

const tellsOf = (
  factory: FactoryOptions | undefined,
  contract: EvmContractOptions,
  signature: string,
): boolean => factory?.of.contract === contract.contract && factory.event === signature

const toldBy = ({ contract, factory }: EvmContractOptions) => ({
  contract,
  argument: factory?.argument ?? '',
})
