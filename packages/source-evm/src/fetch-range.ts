import {
  type Height,
  invariant,
  type LockstepError,
  type SourceBlock,
  type SourceRange,
} from '@lockstep/domain'
import { confirmEmpty, type NodeAnswer } from './doubt.js'
import type { Endpoint } from './endpoint.js'
import type { EventReader } from './event-reader.js'
import { fetchHeader, fetchHeaders } from './fetch-headers.js'
import { fetchLogs } from './fetch-logs.js'
import { fetchTransactions } from './fetch-transactions.js'
import { followChildren, type GatheredLogs } from './follow-children.js'
import type { LogFilter } from './log-filter.js'
import { type EvmHeader, parseHeader } from './parse-header.js'
import type { EvmLog } from './parse-log.js'

const METHOD = 'eth_getBlockByNumber'

export interface RangeWish {
  readonly from: Height
  readonly to: Height
  /** Whether blocks without events are wanted too. */
  readonly everyBlock: boolean
  /** Whether the transactions of events are wanted too. */
  readonly transactions: boolean
}

/**
 * A range is proved by what surrounds its logs. Its last header is read before the logs, so that the node has come
 * that far (some answer a query beyond their head with what they have, which would be a hole), and read again after
 * them: where it is the same block, nothing below it was replaced in between.
 *
 * Of the blocks whose headers are read anyway, those without logs are held against their bloom filters; to read all
 * headers would cost a hundred times what the logs of a rare contract do.
 */
export async function fetchRange(
  node: Endpoint,
  reader: EventReader,
  wish: RangeWish,
  scope: AbortSignal,
): Promise<NodeAnswer<SourceRange>> {
  invariant(wish.from <= wish.to, 'a range ends at or above its start')
  const [first, last] = await fetchEnds(node, wish, scope)
  const filters = reader.filters()
  const look = (filter: LogFilter, from: number) => fetchLogs(node, filter, from, wish.to, scope)
  const asked: EvmLog[] = []
  for (const filter of filters) for (const log of await look(filter, wish.from)) asked.push(log)
  const headers = await fetchHeaders(node, heightsOf(wish, asked), scope)
  const confirmed = await confirmEmpty(node, reader, withoutLogs(headers, asked), scope)
  const gathered = await followChildren(reader, [...asked, ...confirmed.logs], filters, look)
  const all = await addHeaders(node, headers, gathered.logs, scope)
  proveLinks(node, [first, ...all, last])
  const blocks = await readBlocks(node, reader, wish, all, gathered, scope)
  return {
    node,
    answer: { first: first.ref, blocks, last: last.ref },
    doubtful: confirmed.doubtful,
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
function heightsOf({ from, to, everyBlock }: RangeWish, logs: readonly EvmLog[]): number[] {
  if (everyBlock) return Array.from({ length: to - from + 1 }, (_, offset) => from + offset)
  return [...new Set([from, ...logs.map(({ blockNumber }) => blockNumber), to])].sort((a, b) => a - b)
}

function withoutLogs(headers: readonly EvmHeader[], logs: readonly EvmLog[]): EvmHeader[] {
  const withLogs = new Set<number>(logs.map(({ blockNumber }) => blockNumber))
  return headers.filter(({ ref }) => !withLogs.has(ref.height))
}

/** Those of the blocks in which a later look found logs come on top. Ascending. */
async function addHeaders(
  node: Endpoint,
  headers: readonly EvmHeader[],
  logs: readonly EvmLog[],
  scope: AbortSignal,
): Promise<EvmHeader[]> {
  const known = new Set<number>(headers.map(({ ref }) => ref.height))
  const missing = new Set(logs.map(({ blockNumber }) => blockNumber).filter((at) => !known.has(at)))
  const more = await fetchHeaders(node, [...missing], scope)
  return [...headers, ...more].sort((a, b) => a.ref.height - b.ref.height)
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

async function readBlocks(
  node: Endpoint,
  reader: EventReader,
  wish: RangeWish,
  headers: readonly EvmHeader[],
  { logs, children }: GatheredLogs,
  scope: AbortSignal,
): Promise<SourceBlock[]> {
  const byHeight = groupByHeight(logs)
  const read = headers
    .map((header) => ({
      header,
      ...reader.read(node, header, byHeight.get(header.ref.height) ?? [], children),
    }))
    .filter(({ events }) => wish.everyBlock || events.length > 0)
  const transactions = wish.transactions ? await fetchTransactions(node, read, scope) : []
  return read.map(({ header, events, children }, index) => ({
    ref: header.ref,
    events,
    children,
    transactions: transactions[index] ?? [],
  }))
}
