import {
  type ChildContract,
  comparePositions,
  type EventFact,
  type Height,
  type Hex,
  type JsonObject,
  type KnownChild,
  type KnownChildren,
  NO_BYTES,
  type SourceWish,
} from '@lockstep/domain'
import type { Endpoint } from './endpoint.js'
import type { EventIndex, WatchedEvent } from './event-index.js'
import { UnfitLogError } from './log-data.js'
import { finds, type LogFilter, logFiltersOf } from './log-filter.js'
import type { OddityLog } from './oddity-log.js'
import type { EvmHeader } from './parse-header.js'
import type { EvmLog } from './parse-log.js'

/** What one block tells. */
export interface BlockFacts {
  readonly events: readonly EventFact[]
  readonly children: readonly ChildContract[]
}

/** Makes events of logs, as a wish asks for them. */
export class EventReader {
  readonly children: KnownChildren
  readonly #only: ReadonlySet<string> | null
  readonly #wanted: readonly WatchedEvent[]

  constructor(
    private readonly index: EventIndex,
    { children, only }: SourceWish,
    private readonly oddities: OddityLog,
  ) {
    this.children = children
    this.#only = only
    this.#wanted = index.watched.filter((event) => this.#isWanted(event))
  }

  /** The queries that find all that is wanted, as far as the children are known. */
  filters(): LogFilter[] {
    return logFiltersOf(this.#wanted, this.children)
  }

  /** The queries for children that were just found, save for what was asked for everywhere already. */
  filtersOf(found: KnownChildren, asked: readonly LogFilter[]): LogFilter[] {
    const left = this.#wanted.filter(
      (event) => event.ofChildren && !asked.some((filter) => finds(filter, event)),
    )
    return logFiltersOf(left, found)
  }

  /** Whether the block's bloom filter contradicts an answer without logs. */
  mayHold({ logsBloom }: EvmHeader, children: KnownChildren): boolean {
    return logsBloom !== null && this.index.mayHold(logsBloom, this.#wanted, children)
  }

  /** Whether any of the logs is wanted. */
  wantsSome(logs: readonly EvmLog[]): boolean {
    return logs.some((log) =>
      this.index.candidates(log, this.children).some((event) => this.#isWanted(event)),
    )
  }

  /** The children that the logs tell of and that are not known to be there so early. */
  newChildren(logs: readonly EvmLog[], children: KnownChildren): KnownChild[] {
    if (!this.index.hasFactories) return []
    const told = logs.flatMap((log) =>
      this.#toldBy(log, children).map((child) => ({ ...child, height: log.blockNumber as Height })),
    )
    return told.filter(({ contract, address, height }) => {
      const start = children.startOf(contract, address)
      return start === null || height < start
    })
  }

  /**
   * The events of one block in order of position, one for each log that is wanted, and what they tell of.
   *
   * @throws MalformedAnswerError for logs of another block, and for two different ones with one identity
   */
  read(node: Endpoint, header: EvmHeader, logs: readonly EvmLog[], children: KnownChildren): BlockFacts {
    refuseStrangers(node, header, logs)
    let before = 0
    const read = mergeDoubles(node, logs).flatMap((log) => {
      const owned = this.#own(log, children)
      if (owned === null) return []
      before = this.#placeOf(log, header, before)
      return [{ event: factOf(log, before, owned), told: toldBy(owned) }]
    })
    read.sort((a, b) => comparePositions(a.event, b.event))
    return {
      events: read.map(({ event }) => event),
      children: firstOfEach(
        read.flatMap(({ event: { txIndex, eventIndex }, told }) =>
          told.map((child) => ({ ...child, txIndex, eventIndex })),
        ),
      ),
    }
  }

  #isWanted(event: WatchedEvent): boolean {
    return this.#only === null || this.#only.has(event.filter)
  }

  /** Null where the log is nobody's, or of an event that is not wanted: that it fits another, too, changes nothing. */
  #own(log: EvmLog, children: KnownChildren): OwnedLog | null {
    const owned = ownerOf(log, this.index.candidates(log, children))
    return owned !== null && this.#isWanted(owned.event) ? owned : null
  }

  #toldBy(log: EvmLog, children: KnownChildren): Told[] {
    const candidates = this.index.candidates(log, children)
    if (!candidates.some(({ tells }) => tells.length > 0)) return []
    const owned = this.#own(log, children)
    return owned === null ? [] : toldBy(owned)
  }

  /** A log without `transactionIndex` has that of its transaction in the block, else that of the log before it. */
  #placeOf(log: EvmLog, header: EvmHeader, before: number): number {
    const { height } = header.ref
    const listed = header.transactions?.indexOf(log.txHash) ?? null
    if (log.txHash === NO_BYTES) this.oddities.keptLog('no transaction hash', height)
    else if (listed === -1) this.oddities.keptLog('transaction not listed in its block', height)
    if (log.txIndex !== null) return log.txIndex
    this.oddities.keptLog('no transaction index', height)
    return listed !== null && listed >= 0 ? listed : before
  }
}

function refuseStrangers(
  node: Endpoint,
  { ref: { hash, height } }: EvmHeader,
  logs: readonly EvmLog[],
): void {
  const stranger = logs.find((log) => log.blockHash !== hash || log.blockNumber !== height)
  if (stranger === undefined) return
  const where = `${stranger.blockNumber} (${stranger.blockHash})`
  throw node.malformed('eth_getLogs', `a log says block ${where}, and the block is ${height} (${hash})`)
}

/** In the order of the log index; the same log twice is one. */
function mergeDoubles(node: Endpoint, logs: readonly EvmLog[]): EvmLog[] {
  const byIdentity = new Map<string, EvmLog>()
  for (const log of [...logs].sort((a, b) => a.logIndex - b.logIndex)) {
    const identity = `${log.logIndex} ${log.txHash} ${log.txIndex}`
    const known = byIdentity.get(identity)
    if (known !== undefined && contentOf(known) !== contentOf(log)) {
      throw node.malformed('eth_getLogs', `block ${log.blockNumber} has two different logs ${log.logIndex}`)
    }
    byIdentity.set(identity, log)
  }
  return [...byIdentity.values()]
}

const contentOf = (log: EvmLog): string => `${log.address} ${log.topics.join(' ')} ${log.data}`

/** A log and the event that it is; without arguments where it does not fit its ABI. */
interface OwnedLog {
  readonly event: WatchedEvent
  readonly args: JsonObject | null
  readonly undecoded: string | null
}

/**
 * The first candidate that the log fits. Where it fits none it is kept under the first, with the reason; but only
 * signed events claim a log so: for an anonymous one it is merely another event of that contract.
 */
function ownerOf(log: EvmLog, candidates: readonly WatchedEvent[]): OwnedLog | null {
  let unfit: OwnedLog | null = null
  for (const event of candidates) {
    const decoded = tryDecode(event, log)
    if (typeof decoded !== 'string') return { event, args: decoded, undecoded: null }
    if (!event.anonymous) unfit ??= { event, args: null, undecoded: decoded }
  }
  return unfit
}

function tryDecode(watched: WatchedEvent, log: EvmLog): JsonObject | string {
  try {
    return watched.decode(log)
  } catch (error) {
    if (error instanceof UnfitLogError) return error.message
    throw error
  }
}

type Told = Pick<ChildContract, 'contract' | 'address'>

const toldBy = ({ event, args }: OwnedLog): Told[] =>
  args === null
    ? []
    : event.tells.map(({ contract, argument }) => ({ contract, address: String(args[argument]) }))

/** A block that tells of a child twice tells of it once. */
function firstOfEach(children: readonly ChildContract[]): ChildContract[] {
  const seen = new Set<string>()
  return children.filter(({ contract, address }) => seen.size !== seen.add(`${contract} ${address}`).size)
}

function factOf(log: EvmLog, txIndex: number, { event, args, undecoded }: OwnedLog): EventFact {
  const raw: { topics: readonly Hex[]; data: Hex } = { topics: log.topics, data: log.data }
  return {
    txIndex,
    eventIndex: log.logIndex,
    txHash: log.txHash,
    contract: event.contract,
    address: log.address,
    name: event.name,
    args,
    raw,
    undecoded,
  }
}
