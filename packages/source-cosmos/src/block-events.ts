import {
  type EventFact,
  hexOf,
  type JsonValue,
  NO_BYTES,
  storableText,
  TX_INDEX_BEGIN_BLOCK,
  TX_INDEX_END_BLOCK,
} from '@lockstep/domain'
import type { BlockResults, WireAttribute, WireEvent } from './answers.js'
import { type Attribute, type AttributeEncoding, decodeAttribute, encodingOf } from './attribute-encoding.js'
import type { EventFilters } from './event-filters.js'

/**
 * The events of a block that the filters give, in order of position; transaction hashes are still `NO_BYTES`.
 *
 * @param byVersion how the node's version writes attributes; the answer itself may say otherwise
 */
export function selectEvents(
  results: BlockResults,
  byVersion: AttributeEncoding,
  filters: EventFilters,
): EventFact[] {
  return placeEvents(results, encodingOf(results, byVersion)).flatMap((placed) => {
    const { txIndex, eventIndex, event, attributes, failedCode } = placed
    const name = storableText(event.type)
    const address = contractAddress(event.type, attributes)
    const contract = filters.contractOf({ type: name, address, attributes, failed: failedCode !== null })
    if (contract === null) return []
    const args = argsOf(attributes, failedCode)
    const raw: EventFact['raw'] = { topics: [], data: rawData(event.attributes) }
    return [{ txIndex, eventIndex, txHash: NO_BYTES, contract, address, name, args, raw, undecoded: null }]
  })
}

interface PlacedEvent {
  readonly txIndex: number
  readonly eventIndex: number
  readonly event: WireEvent
  readonly attributes: readonly Attribute[]
  /** Code of the failed transaction that emitted it; null: it did not fail, or there is none. */
  readonly failedCode: number | null
}

/**
 * Positions in order of execution: begin block, transactions, end block. The index counts all events of the list as
 * the node gives it, so it does not depend on the config, and not on what the list's other events are. Where an
 * answer has both layouts' lists, the shared one counts on from the other.
 */
function placeEvents(results: BlockResults, encoding: AttributeEncoding): PlacedEvent[] {
  const { beginBlock, endBlock, finalizeBlock } = results
  const placed = (events: readonly WireEvent[], txIndex: number, failedCode: number | null = null) =>
    events.map((event, eventIndex) => ({
      txIndex,
      eventIndex,
      event,
      attributes: event.attributes.map((attribute) => decodeAttribute(attribute, encoding)),
      failedCode,
    }))
  const finalize = placed(finalizeBlock, TX_INDEX_END_BLOCK)
  const isBegin = ({ attributes }: PlacedEvent) => phaseOf(attributes.at(-1)) === TX_INDEX_BEGIN_BLOCK
  return [
    ...placed(beginBlock, TX_INDEX_BEGIN_BLOCK),
    ...finalize.filter(isBegin).map((each) => movedTo(TX_INDEX_BEGIN_BLOCK, each, beginBlock.length)),
    ...results.txs.flatMap(({ code, events }, index) => placed(events, index, code === 0 ? null : code)),
    ...placed(endBlock, TX_INDEX_END_BLOCK),
    ...finalize
      .filter((each) => !isBegin(each))
      .map((each) => movedTo(TX_INDEX_END_BLOCK, each, endBlock.length)),
  ]
}

const movedTo = (txIndex: number, event: PlacedEvent, after: number): PlacedEvent => ({
  ...event,
  txIndex,
  eventIndex: event.eventIndex + after,
})

/**
 * From 0.38 on both phases share one list, and the Cosmos SDK appends `mode: BeginBlock` or `mode: EndBlock` to each
 * event. Only the last attribute counts: a contract may emit a `mode` of its own, but before it.
 */
const phaseOf = (last: Attribute | undefined): number =>
  last?.key === 'mode' && last.value === 'BeginBlock' ? TX_INDEX_BEGIN_BLOCK : TX_INDEX_END_BLOCK

/**
 * The wasm contract that an event names. wasmd puts the attribute first and reserves keys that begin with `_`, so
 * `_contract_address` cannot be forged. Before 0.19 it was a plain `contract_address`, which contracts may emit too:
 * it counts only at the first place of a wasm event.
 */
function contractAddress(type: string, attributes: readonly Attribute[]): string | null {
  const named = attributes.find(({ key }) => key === '_contract_address')
  if (named !== undefined) return named.value
  const [first] = attributes
  const isWasm = type === 'wasm' || type.startsWith('wasm-')
  return isWasm && first?.key === 'contract_address' ? first.value : null
}

/** Where `args` of a failed transaction's event tells of it. */
const FAILED = '_failed'

/**
 * A key that comes once gives its value; one that comes again gives the list of its values, in order. An event of a
 * failed transaction is marked by `_failed: {"code": …}`: values of attributes are never objects, so an attribute of
 * that name (which then stands beside the mark, in a list) is not taken for one.
 */
function argsOf(attributes: readonly Attribute[], failedCode: number | null): EventFact['args'] {
  const args = new Map<string, JsonValue[]>()
  const add = (key: string, value: JsonValue) => {
    const values = args.get(key)
    if (values) values.push(value)
    else args.set(key, [value])
  }
  for (const { key, value } of attributes) add(key, value)
  if (failedCode !== null) add(FAILED, { code: failedCode })
  return Object.fromEntries(
    [...args].map(([key, values]) => [key, values.length === 1 ? (values[0] ?? null) : values]),
  )
}

/** The attribute list as on the wire. Fields in one order, since gateways reorder them and raw forms are compared. */
const rawData = (attributes: readonly WireAttribute[]): EventFact['raw']['data'] =>
  hexOf(Buffer.from(JSON.stringify(attributes.map(({ key, value, index }) => ({ key, value, index })))))
