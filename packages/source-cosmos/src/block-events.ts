import type { CosmosContractOptions } from '@lockstep/config'
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
import type { NodeDialect } from './node-version.js'
import { ShapeError } from './wire.js'

/** The events of a block that the config asks for, in order of position; transaction hashes are still `NO_BYTES`. */
export function selectEvents(
  results: BlockResults,
  dialect: NodeDialect,
  contracts: readonly CosmosContractOptions[],
): EventFact[] {
  return placeEvents(results, dialect).flatMap(({ txIndex, eventIndex, event, attributes }) => {
    const address = contractAddress(event.type, attributes)
    const contract = contracts.find((each) => wants(each, event.type, address, attributes))
    if (contract === undefined) return []
    return [
      {
        txIndex,
        eventIndex,
        txHash: NO_BYTES,
        contract: contract.contract,
        address: address === null ? null : storableText(address),
        name: storableText(event.type),
        args: argsOf(attributes),
        raw: { topics: [], data: rawData(event.attributes) },
        undecoded: null,
      },
    ]
  })
}

interface PlacedEvent {
  readonly txIndex: number
  readonly eventIndex: number
  readonly event: WireEvent
  readonly attributes: readonly Attribute[]
}

/** An attribute as its application meant it. */
interface Attribute {
  readonly key: string
  readonly value: string | null
}

/**
 * Positions in order of execution: begin block, transactions, end block. What failed transactions emitted is left
 * out: it was taken back with their state. The index counts all events of the list as the node gives it, so it does
 * not depend on the config, and not on what the list's other events are.
 */
function placeEvents(results: BlockResults, dialect: NodeDialect): PlacedEvent[] {
  const place = (txIndex: number | ((last: Attribute | undefined) => number), events: readonly WireEvent[]) =>
    events.map((event, eventIndex) => {
      const attributes = event.attributes.map((attribute) => decoded(attribute, dialect))
      const index = typeof txIndex === 'number' ? txIndex : txIndex(attributes.at(-1))
      return { txIndex: index, eventIndex, event, attributes }
    })
  const txs = results.txs.flatMap(({ code, events }, index) => (code === 0 ? place(index, events) : []))
  if (!dialect.finalizeBlockEvents) {
    return [
      ...place(TX_INDEX_BEGIN_BLOCK, results.beginBlock),
      ...txs,
      ...place(TX_INDEX_END_BLOCK, results.endBlock),
    ]
  }
  const finalize = place(phaseOf, results.finalizeBlock)
  return [
    ...finalize.filter(({ txIndex }) => txIndex === TX_INDEX_BEGIN_BLOCK),
    ...txs,
    ...finalize.filter(({ txIndex }) => txIndex === TX_INDEX_END_BLOCK),
  ]
}

/**
 * From 0.38 on both phases share one list, and the Cosmos SDK appends `mode: BeginBlock` or `mode: EndBlock` to each
 * event. Only the last attribute counts: a contract may emit a `mode` of its own, but before it.
 */
const phaseOf = (last: Attribute | undefined): number =>
  last?.key === 'mode' && last.value === 'BeginBlock' ? TX_INDEX_BEGIN_BLOCK : TX_INDEX_END_BLOCK

function decoded({ key, value }: WireAttribute, dialect: NodeDialect): Attribute {
  if (!dialect.base64Attributes) return { key, value }
  return { key: fromBase64(key), value: value === null ? null : fromBase64(value) }
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/** Bytes that are no UTF-8 become U+FFFD; the raw form keeps them. */
function fromBase64(text: string): string {
  if (!BASE64.test(text)) throw new ShapeError('an attribute', 'base64, as 0.34 nodes write it', text)
  return Buffer.from(text, 'base64').toString('utf8')
}

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

function wants(
  { address, events }: CosmosContractOptions,
  type: string,
  emitter: string | null,
  attributes: readonly Attribute[],
): boolean {
  if (address !== null && address !== emitter) return false
  if (events === null) return true
  return events.some(
    (filter) =>
      filter.type === type &&
      (filter.action === null ||
        attributes.some(({ key, value }) => key === 'action' && value === filter.action)),
  )
}

/** A key that comes once gives its value; one that comes again gives the list of its values, in order. */
function argsOf(attributes: readonly Attribute[]): EventFact['args'] {
  const args = new Map<string, JsonValue[]>()
  for (const { key, value } of attributes) {
    // Made storable before they are put together: two keys that differ only in what PostgreSQL refuses are one.
    const name = storableText(key)
    const values = args.get(name) ?? []
    values.push(value === null ? null : storableText(value))
    args.set(name, values)
  }
  return Object.fromEntries(
    [...args].map(([key, values]) => [key, values.length === 1 ? (values[0] ?? null) : values]),
  )
}

/** The attribute list as on the wire. Fields in one order, since gateways reorder them and raw forms are compared. */
const rawData = (attributes: readonly WireAttribute[]): EventFact['raw']['data'] =>
  hexOf(Buffer.from(JSON.stringify(attributes.map(({ key, value, index }) => ({ key, value, index })))))
