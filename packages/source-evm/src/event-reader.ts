import type { EvmChainOptions } from '@lockstep/config'
import { comparePositions, type EventFact, type Hex, type JsonObject, NO_BYTES } from '@lockstep/domain'
import type { Logger } from '@lockstep/telemetry'
import { decodeEvent, UnfitLogError } from './decode-event.js'
import type { Endpoint } from './endpoint.js'
import { EventIndex, type WatchedEvent } from './event-index.js'
import type { EvmHeader } from './parse-header.js'
import type { EvmLog } from './parse-log.js'

type Oddity = 'no transaction index' | 'no transaction hash' | 'transaction not listed in its block'

/** Makes events of logs. */
export class EventReader {
  readonly index: EventIndex
  readonly #warned = new Set<Oddity>()

  constructor(
    private readonly options: EvmChainOptions,
    private readonly logger: Logger,
  ) {
    this.index = new EventIndex(options)
  }

  /**
   * The events of one block in order of position: one for each log that the config asks for.
   *
   * @throws MalformedAnswerError for logs of another block, and for two different ones with one identity
   */
  read(node: Endpoint, header: EvmHeader, logs: readonly EvmLog[]): EventFact[] {
    const { hash, height } = header.ref
    const stranger = logs.find((log) => log.blockHash !== hash || log.blockNumber !== height)
    if (stranger !== undefined) {
      const where = `${stranger.blockNumber} (${stranger.blockHash})`
      throw node.malformed('eth_getLogs', `a log says block ${where}, and the block is ${height} (${hash})`)
    }
    const wanted = mergeDoubles(node, logs)
      .map((log) => ({ log, candidates: this.index.candidates(log) }))
      .filter(({ candidates }) => candidates.length > 0)
    let before = 0
    const events = wanted.map(({ log, candidates }) => {
      before = this.#placeOf(log, header, before)
      return toEvent(log, before, candidates)
    })
    return events.filter((event) => event !== null).sort(comparePositions)
  }

  /** A log without `transactionIndex` has that of its transaction in the block, else that of the log before it. */
  #placeOf(log: EvmLog, header: EvmHeader, before: number): number {
    const listed = header.transactions?.indexOf(log.txHash) ?? null
    if (log.txHash === NO_BYTES) this.#warnOnce('no transaction hash', header)
    else if (listed === -1) this.#warnOnce('transaction not listed in its block', header)
    if (log.txIndex !== null) return log.txIndex
    this.#warnOnce('no transaction index', header)
    return listed !== null && listed >= 0 ? listed : before
  }

  #warnOnce(oddity: Oddity, header: EvmHeader): void {
    if (this.#warned.has(oddity)) return
    this.#warned.add(oddity)
    this.logger.warn({ chain: this.options.chain, height: header.ref.height, oddity }, 'odd log was kept')
  }
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

/**
 * The first candidate that the log fits. Where it fits none it is kept under the first, with the reason; but only
 * signed events claim a log so: for an anonymous one it is merely another event of that contract.
 */
function toEvent(log: EvmLog, txIndex: number, candidates: readonly WatchedEvent[]): EventFact | null {
  let unfit: { readonly watched: WatchedEvent; readonly reason: string } | null = null
  for (const watched of candidates) {
    const decoded = tryDecode(watched, log)
    if (typeof decoded !== 'string') return factOf(log, txIndex, watched, decoded, null)
    if (watched.topic0 !== null) unfit ??= { watched, reason: decoded }
  }
  return unfit === null ? null : factOf(log, txIndex, unfit.watched, null, unfit.reason)
}

function tryDecode(watched: WatchedEvent, log: EvmLog): JsonObject | string {
  try {
    return decodeEvent(watched.abi, log)
  } catch (error) {
    if (error instanceof UnfitLogError) return error.message
    throw error
  }
}

function factOf(
  log: EvmLog,
  txIndex: number,
  { contract, name }: WatchedEvent,
  args: JsonObject | null,
  undecoded: string | null,
): EventFact {
  const raw: { topics: readonly Hex[]; data: Hex } = { topics: log.topics, data: log.data }
  return {
    txIndex,
    eventIndex: log.logIndex,
    txHash: log.txHash,
    contract,
    address: log.address,
    name,
    args,
    raw,
    undecoded,
  }
}
