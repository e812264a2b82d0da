import type { EventFact, Height, SourceBlock } from '@lockstep/domain'
import type { Endpoint } from './endpoint.js'
import type { EventReader } from './event-reader.js'
import { fetchHeader } from './fetch-headers.js'
import { fetchLogsOfBlock } from './fetch-logs.js'
import { fetchBlockReceiptLogs } from './fetch-receipts.js'
import type { EvmHeader } from './parse-header.js'
import type { EvmLog } from './parse-log.js'

/** One block near the head with its events; null where the node has none at that height. */
export async function fetchBlock(
  node: Endpoint,
  reader: EventReader,
  at: Height,
  scope: AbortSignal,
): Promise<SourceBlock | null> {
  const header = await fetchHeader(node, at, scope)
  if (header === null) return null
  return {
    ref: header.ref,
    events: await fetchEvents(node, reader, header, scope),
    children: [],
    transactions: [],
  }
}

/**
 * Near the head a node may know a block before its log index does, and then answers with no logs. The block's own
 * bloom filter says whether that can be true; where it may not be, the receipts are asked once.
 */
async function fetchEvents(
  node: Endpoint,
  reader: EventReader,
  header: EvmHeader,
  scope: AbortSignal,
): Promise<EventFact[]> {
  const { filter } = reader.index
  if (filter === null) return []
  const logs = await fetchLogsOfBlock(node, filter, header, scope)
  const doubtful = logs.length === 0 && header.logsBloom !== null && reader.index.mayHold(header.logsBloom)
  const confirmed: readonly EvmLog[] = doubtful
    ? ((await fetchBlockReceiptLogs(node, header, scope)) ?? [])
    : logs
  return reader.read(node, header, confirmed)
}
