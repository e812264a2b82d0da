import { CallFailure } from './call-failure.js'
import type { Endpoint } from './endpoint.js'
import type { EventReader } from './event-reader.js'
import { fetchLogsOfBlock } from './fetch-logs.js'
import { fetchBlockReceiptLogs } from './fetch-receipts.js'
import type { EvmHeader } from './parse-header.js'
import type { EvmLog } from './parse-log.js'

/*
 * A node may know a block before its log index does, or have lost a part of that index, and then answers a log query
 * with nothing. The block's own bloom filter says whether that can be true. Where it may not be, the receipts tell;
 * where the node has none, another endpoint.
 */

/** An answer of one node. */
export interface NodeAnswer<T> {
  readonly node: Endpoint
  readonly answer: T
  /** Blocks without logs that may hold some, and of which this node gives no receipts. */
  readonly doubtful: readonly EvmHeader[]
}

export interface Confirmed {
  /** What the receipts have of the blocks that the query gave nothing of. */
  readonly logs: readonly EvmLog[]
  readonly doubtful: readonly EvmHeader[]
}

/** Asks the receipts of those blocks whose emptiness their bloom filters contradict. @param empty blocks without logs */
export async function confirmEmpty(
  node: Endpoint,
  reader: EventReader,
  empty: readonly EvmHeader[],
  scope: AbortSignal,
): Promise<Confirmed> {
  const logs: EvmLog[] = []
  const doubtful: EvmHeader[] = []
  for (const header of empty) {
    if (!reader.mayHold(header, reader.children)) continue
    const ofBlock = await fetchBlockReceiptLogs(node, header, scope)
    if (ofBlock === null) doubtful.push(header)
    else for (const log of ofBlock) logs.push(log)
  }
  return { logs, doubtful }
}

/** Whether this node has wanted logs of one of the blocks; a node that does not know a block says nothing of it. */
export async function contradicts(
  node: Endpoint,
  reader: EventReader,
  doubtful: readonly EvmHeader[],
  scope: AbortSignal,
): Promise<'yes' | 'no' | 'unknown'> {
  let known = 0
  for (const header of doubtful) {
    try {
      for (const filter of reader.filters())
        if (reader.wantsSome(await fetchLogsOfBlock(node, filter, header, scope))) return 'yes'
      known += 1
    } catch (error) {
      if (!(error instanceof CallFailure)) throw error
    }
  }
  return known === doubtful.length ? 'no' : 'unknown'
}
