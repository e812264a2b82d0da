import {
  type Height,
  invariant,
  type LockstepError,
  type SourceBlock,
  type SourceRange,
} from '@lockstep/domain'
import type { Endpoint } from './endpoint.js'
import type { EventReader } from './event-reader.js'
import { fetchHeader, fetchHeaders } from './fetch-headers.js'
import { fetchLogs } from './fetch-logs.js'
import { type EvmHeader, parseHeader } from './parse-header.js'
import type { EvmLog } from './parse-log.js'

const METHOD = 'eth_getBlockByNumber'

export interface RangeWish {
  readonly from: Height
  readonly to: Height
  /** Whether blocks without events are wanted too. */
  readonly everyBlock: boolean
}

/**
 * A range is proved by what surrounds its logs. Its last header is read before the logs, so that the node has come
 * that far (some answer a query beyond their head with what they have, which would be a hole), and read again after
 * them: where it is the same block, nothing below it was replaced in between.
 */
export async function fetchRange(
  node: Endpoint,
  reader: EventReader,
  wish: RangeWish,
  scope: AbortSignal,
): Promise<SourceRange> {
  invariant(wish.from <= wish.to, 'a range ends at or above its start')
  const [first, last] = await fetchEnds(node, wish, scope)
  const { filter } = reader.index
  const logs = filter === null ? [] : await fetchLogs(node, filter, wish.from, wish.to, scope)
  const logsByHeight = groupByHeight(logs)
  const headers = await fetchHeaders(node, heightsOf(wish, logsByHeight), scope)
  proveLinks(node, [first, ...headers, last])
  const blocks = headers.map((header) => readBlock(node, reader, header, logsByHeight))
  return {
    first: first.ref,
    blocks: blocks.filter((block) => wish.everyBlock || block.events.length > 0),
    last: last.ref,
  }
}

async function fetchEnds(
  node: Endpoint,
  wish: RangeWish,
  scope: AbortSignal,
): Promise<[EvmHeader, EvmHeader]> {
  const [first, last] = await Promise.all([
    fetchHeader(node, wish.from, scope),
    fetchHeader(node, wish.to, scope),
  ])
  if (last === null) throw node.malformed(METHOD, `it has no block ${wish.to}`)
  if (first === null) throw await whyMissing(node, wish, scope)
  return [first, last]
}

/**
 * Null for a block below one that it has may be a node that threw it away, which stops a chain, or a mishap behind
 * a load balancer, which does not. `earliest` is the lowest block that the node has (execution-apis, BlockTag).
 */
async function whyMissing(
  node: Endpoint,
  { from, to }: RangeWish,
  scope: AbortSignal,
): Promise<LockstepError> {
  const earliest = await node.call({ method: METHOD, params: ['earliest', false] }, scope)
  const lowest = earliest === null ? null : parseHeader(node, METHOD, earliest).ref.height
  if (lowest !== null && lowest > from) return node.pruned(from, lowest)
  return node.malformed(METHOD, `it has block ${to} and not block ${from}`)
}

/** Ascending: both ends, and what holds logs or is wanted anyway. */
function heightsOf(
  { from, to, everyBlock }: RangeWish,
  logsByHeight: ReadonlyMap<number, unknown>,
): number[] {
  if (everyBlock) return Array.from({ length: to - from + 1 }, (_, offset) => from + offset)
  return [...new Set([from, ...logsByHeight.keys(), to])].sort((a, b) => a - b)
}

function groupByHeight(logs: readonly EvmLog[]): Map<number, EvmLog[]> {
  const groups = new Map<number, EvmLog[]>()
  for (const log of logs) {
    const group = groups.get(log.blockNumber)
    if (group === undefined) groups.set(log.blockNumber, [log])
    else group.push(log)
  }
  return groups
}

/** Each block is the parent of the next height's, and of one height there is one block. */
function proveLinks(node: Endpoint, headers: readonly EvmHeader[]): void {
  for (const [index, { ref }] of headers.entries()) {
    const next = headers[index + 1]?.ref
    if (next === undefined) return
    const linked = next.height === ref.height ? next.hash === ref.hash : next.parentHash === ref.hash
    if (linked || next.height > ref.height + 1) continue
    throw node.malformed(
      METHOD,
      `block ${next.height} (${next.hash}) does not follow block ${ref.height} (${ref.hash}): the chain moved meanwhile`,
    )
  }
}

function readBlock(
  node: Endpoint,
  reader: EventReader,
  header: EvmHeader,
  logsByHeight: ReadonlyMap<number, readonly EvmLog[]>,
): SourceBlock {
  const events = reader.read(node, header, logsByHeight.get(header.ref.height) ?? [])
  return { ref: header.ref, events, children: [], transactions: [] }
}
