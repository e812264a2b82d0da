import { type BlockRef, type Height, type Hex, height, parseTime } from '@lockstep/domain'
import { countAt, type JsonRecord, listAt, recordAt, ShapeError, textAt } from './wire.js'

/*
 * The answers that are read here and not by cosmjs, each for a reason:
 *
 * - status: cosmjs refuses validators with a BLS key, nodes whose app hash is still empty, and gateways that blank
 *   out addresses, none of which matter here
 * - blockchain: a node that prunes meanwhile puts `null` among the headers
 * - block_results, tx: an attribute with an empty key makes cosmjs throw; values of 0.34 nodes are base64; null and
 *   empty values are told apart; and what is stored as raw form is the list as it came
 */

export interface NodeStatus {
  readonly network: string
  readonly version: string
  /** Null before the chain's first block. */
  readonly latest: { readonly height: Height; readonly hash: Hex } | null
}

export function parseStatus(result: unknown): NodeStatus {
  const status = recordAt(result, 'result')
  const node = recordAt(status.node_info, 'node_info')
  const sync = recordAt(status.sync_info, 'sync_info')
  const latest = countAt(sync.latest_block_height, 'sync_info.latest_block_height')
  return {
    network: textAt(node.network, 'node_info.network'),
    version: textAt(node.version ?? '', 'node_info.version'),
    latest:
      latest === 0
        ? null
        : { height: height(latest), hash: hashAt(sync.latest_block_hash, 'sync_info.latest_block_hash') },
  }
}

/** A block's header with what proves its transactions' number. */
export interface BlockHeader {
  readonly ref: BlockRef
  readonly network: string
  readonly txs: number
}

export interface HeaderPage {
  readonly head: Height
  /** Ascending, as many as the node has of those asked for. */
  readonly headers: readonly BlockHeader[]
}

export function parseHeaderPage(result: unknown): HeaderPage {
  const page = recordAt(result, 'result')
  const metas = listAt(page.block_metas, 'block_metas').filter((meta) => meta !== null)
  return {
    head: height(countAt(page.last_height, 'last_height')),
    headers: metas.map(parseHeader).sort((a, b) => a.ref.height - b.ref.height),
  }
}

function parseHeader(meta: unknown, index: number): BlockHeader {
  const path = `block_metas[${index}]`
  const record = recordAt(meta, path)
  const header = recordAt(record.header, `${path}.header`)
  const id = recordAt(record.block_id, `${path}.block_id`)
  return {
    network: textAt(header.chain_id, `${path}.header.chain_id`),
    txs: countAt(record.num_txs, `${path}.num_txs`),
    ref: {
      height: height(countAt(header.height, `${path}.header.height`)),
      hash: hashAt(id.hash, `${path}.block_id.hash`),
      parentHash: parentHashAt(header.last_block_id, `${path}.header.last_block_id`),
      time: timeAt(header.time, `${path}.header.time`),
    },
  }
}

/** A chain's first block has `{hash: '', parts: {total: 0, hash: ''}}` where others name their parent. */
function parentHashAt(value: unknown, path: string): Hex | null {
  if (value === null || value === undefined) return null
  const { hash } = recordAt(value, path)
  return hash === '' ? null : hashAt(hash, `${path}.hash`)
}

const HASH = /^[0-9A-Fa-f]{64}$/

function hashAt(value: unknown, path: string): Hex {
  if (typeof value !== 'string' || !HASH.test(value))
    throw new ShapeError(path, 'a hash of 64 hex digits', value)
  return `0x${value.toLowerCase()}`
}

function timeAt(value: unknown, path: string): BlockRef['time'] {
  const time = parseTime(textAt(value, path))
  if (time === null) throw new ShapeError(path, 'an RFC 3339 time', value)
  return time
}

/** One attribute as on the wire, before any base64 is taken off. */
export interface WireAttribute {
  readonly key: string
  readonly value: string | null
  readonly index: boolean
}

export interface WireEvent {
  readonly type: string
  readonly attributes: readonly WireAttribute[]
}

export interface BlockResults {
  readonly height: Height
  readonly txs: readonly { readonly code: number; readonly events: readonly WireEvent[] }[]
  /** Up to 0.37. */
  readonly beginBlock: readonly WireEvent[]
  /** Up to 0.37. */
  readonly endBlock: readonly WireEvent[]
  /** From 0.38 on. */
  readonly finalizeBlock: readonly WireEvent[]
}

export function parseBlockResults(result: unknown): BlockResults {
  const results = recordAt(result, 'result')
  return {
    height: height(countAt(results.height, 'height')),
    txs: listAt(results.txs_results, 'txs_results').map(parseTxResult),
    beginBlock: parseEvents(results.begin_block_events, 'begin_block_events'),
    endBlock: parseEvents(results.end_block_events, 'end_block_events'),
    finalizeBlock: parseEvents(results.finalize_block_events, 'finalize_block_events'),
  }
}

function parseTxResult(value: unknown, index: number): BlockResults['txs'][number] {
  const path = `txs_results[${index}]`
  const result = recordAt(value, path)
  return {
    code: countAt(result.code ?? 0, `${path}.code`),
    events: parseEvents(result.events, `${path}.events`),
  }
}

function parseEvents(value: unknown, path: string): readonly WireEvent[] {
  return listAt(value, path).map((item, index) => {
    const event = recordAt(item, `${path}[${index}]`)
    return {
      type: textAt(event.type, `${path}[${index}].type`),
      attributes: listAt(event.attributes, `${path}[${index}].attributes`).map((attribute) =>
        parseAttribute(recordAt(attribute, `${path}[${index}].attributes`), `${path}[${index}].attributes`),
      ),
    }
  })
}

function parseAttribute({ key, value, index }: JsonRecord, path: string): WireAttribute {
  if (index !== undefined && typeof index !== 'boolean')
    throw new ShapeError(`${path}.index`, 'true or false', index)
  return {
    key: key === null || key === undefined ? '' : textAt(key, `${path}.key`),
    value: value === null || value === undefined ? null : textAt(value, `${path}.value`),
    index: index ?? false,
  }
}

/** Where a transaction is; the node's answer names it again. */
export function parseTx(result: unknown): { readonly hash: Hex; readonly height: Height } {
  const tx = recordAt(result, 'result')
  return { hash: hashAt(tx.hash, 'hash'), height: height(countAt(tx.height, 'height')) }
}
