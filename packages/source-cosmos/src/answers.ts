import { type BlockRef, type Height, type Hex, height, parseTime } from '@lockstep/domain'
import { headerHash } from './header-hash.js'
import {
  bytesOfBase64,
  countAt,
  integerAt,
  type JsonRecord,
  listAt,
  recordAt,
  ShapeError,
  textAt,
} from './wire.js'

/*
 * The answers that are read here and not by cosmjs, each for a reason:
 *
 * - status: cosmjs refuses validators with a BLS key, nodes whose app hash is still empty, and gateways that blank
 *   out addresses, none of which matter here
 * - blockchain, block: hashes are checked, which needs the header as it came; a node that prunes meanwhile puts `null`
 *   among the headers, and first blocks have `null` where others have their commit
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
  return {
    network: textAt(header.chain_id, `${path}.header.chain_id`),
    txs: countAt(record.num_txs, `${path}.num_txs`),
    ref: {
      height: height(countAt(header.height, `${path}.header.height`)),
      hash: provenHashAt(record.block_id, header, path),
      parentHash: parentHashAt(header.last_block_id, `${path}.header.last_block_id`),
      time: timeAt(header.time, `${path}.header.time`),
    },
  }
}

/** The block's hash, which its header must have. So nobody can give a block another time, parent or application hash. */
function provenHashAt(blockId: unknown, header: JsonRecord, path: string): Hex {
  const hash = hashAt(recordAt(blockId, `${path}.block_id`).hash, `${path}.block_id.hash`)
  const proven = headerHash(header, `${path}.header`)
  if (hash === proven) return hash
  throw new ShapeError(`${path}.block_id.hash`, `the hash of its header, ${proven}`, hash)
}

/** A block with what is read of it: which one it is, and the bytes of its transactions. */
export interface BlockBody {
  readonly hash: Hex
  readonly txs: readonly Buffer[]
}

export function parseBlock(result: unknown): BlockBody {
  const answer = recordAt(result, 'result')
  const block = recordAt(answer.block, 'block')
  const data = recordAt(block.data ?? {}, 'block.data')
  return {
    hash: provenHashAt(answer.block_id, recordAt(block.header, 'block.header'), 'block'),
    txs: listAt(data.txs, 'block.data.txs').map((tx, index) => base64At(tx, `block.data.txs[${index}]`)),
  }
}

function base64At(value: unknown, path: string): Buffer {
  const bytes = bytesOfBase64(textAt(value, path))
  if (bytes === null) throw new ShapeError(path, 'base64', value)
  return bytes
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

export interface TxResult {
  /** 0: success. */
  readonly code: number
  /** Decimal; null where the node does not say. */
  readonly gasWanted: string | null
  readonly gasUsed: string | null
  readonly events: readonly WireEvent[]
}

/** A node gives the lists of its layout; behind one address there may be nodes of several. */
export interface BlockResults {
  readonly height: Height
  readonly txs: readonly TxResult[]
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

function parseTxResult(value: unknown, index: number): TxResult {
  const path = `txs_results[${index}]`
  const result = recordAt(value, path)
  return {
    code: countAt(result.code ?? 0, `${path}.code`),
    gasWanted: gasAt(result.gas_wanted, `${path}.gas_wanted`),
    gasUsed: gasAt(result.gas_used, `${path}.gas_used`),
    events: parseEvents(result.events, `${path}.events`),
  }
}

const gasAt = (value: unknown, path: string): string | null =>
  value === null || value === undefined ? null : String(integerAt(value, path))

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
