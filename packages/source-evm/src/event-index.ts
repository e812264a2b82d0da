import type { EvmChainOptions, EvmContractOptions } from '@lockstep/config'
import type { Hex } from '@lockstep/domain'
import { type AbiEvent, toEventSelector, toEventSignature } from 'viem'
import { bloomMayHold } from './logs-bloom.js'
import type { EvmLog } from './parse-log.js'

/** One configured event of one contract entry. */
export interface WatchedEvent {
  readonly contract: string
  /** The event's name in facts: its own, or its signature where the contract has overloads of that name. */
  readonly name: string
  readonly abi: AbiEvent
  /** Null: of any address. */
  readonly addresses: ReadonlySet<string> | null
  /** Null: anonymous. */
  readonly topic0: Hex | null
}

/** What a node is asked for: one query for all contracts, a superset of what they want together. */
export interface LogFilter {
  readonly address?: readonly string[]
  readonly topics?: readonly (readonly Hex[])[]
}

/** Which logs the config asks for, and as what. */
export class EventIndex {
  /** Null: nothing is asked for, and no log query is made. */
  readonly filter: LogFilter | null
  readonly #watched: readonly WatchedEvent[]
  readonly #byTopic = new Map<Hex, WatchedEvent[]>()
  readonly #anonymous: readonly WatchedEvent[]

  constructor(options: EvmChainOptions) {
    // Entries that name addresses come before those of any address; a stable sort keeps the file's order in both.
    const all = options.contracts.flatMap(watchedEventsOf)
    this.#watched = all.sort((a, b) => Number(a.addresses === null) - Number(b.addresses === null))
    this.#anonymous = this.#watched.filter(({ topic0 }) => topic0 === null)
    for (const event of this.#watched) {
      if (event.topic0 === null) continue
      const same = this.#byTopic.get(event.topic0)
      if (same === undefined) this.#byTopic.set(event.topic0, [event])
      else same.push(event)
    }
    this.filter = filterOf(this.#watched)
  }

  /**
   * What the log may be, best first. Anonymous events come last: any log of their address could be one, so one
   * with a known signature is that.
   */
  candidates(log: EvmLog): WatchedEvent[] {
    const signed = log.topics[0] === undefined ? [] : (this.#byTopic.get(log.topics[0]) ?? [])
    return [...signed, ...this.#anonymous].filter(
      ({ addresses }) => addresses === null || addresses.has(log.address),
    )
  }

  /** Whether a block with this bloom may hold a log that is asked for. */
  mayHold(bloom: Hex): boolean {
    return this.#watched.some(({ addresses, topic0 }) => {
      if (topic0 !== null && !bloomMayHold(bloom, topic0)) return false
      return addresses === null || [...addresses].some((address) => bloomMayHold(bloom, address as Hex))
    })
  }
}

function watchedEventsOf({ contract, addresses, events }: EvmContractOptions): WatchedEvent[] {
  const signatures = new Map<string, Set<string>>()
  for (const event of events) {
    const known = signatures.get(event.name) ?? new Set()
    signatures.set(event.name, known.add(toEventSignature(event)))
  }
  if (addresses?.length === 0) return [] // in a filter an empty list would mean any
  return events.map((abi) => ({
    contract,
    name: (signatures.get(abi.name)?.size ?? 0) > 1 ? toEventSignature(abi) : abi.name,
    abi,
    addresses: addresses === null ? null : new Set(addresses.map((address) => address.toLowerCase())),
    topic0: abi.anonymous === true ? null : toEventSelector(abi),
  }))
}

/** The union of addresses, unless one entry takes any; the union of signatures, unless one event has none. */
function filterOf(watched: readonly WatchedEvent[]): LogFilter | null {
  if (watched.length === 0) return null
  const addresses = new Set(watched.flatMap((event) => [...(event.addresses ?? [])]))
  const topics = new Set(watched.flatMap(({ topic0 }) => (topic0 === null ? [] : [topic0])))
  return {
    ...(watched.every((event) => event.addresses !== null) && { address: [...addresses] }),
    ...(watched.every((event) => event.topic0 !== null) && { topics: [[...topics]] }),
  }
}
