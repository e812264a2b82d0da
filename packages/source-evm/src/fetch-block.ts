import type { Height, SourceBlock } from '@lockstep/domain'
import { confirmEmpty, type NodeAnswer } from './doubt.js'
import type { Endpoint } from './endpoint.js'
import type { EventReader } from './event-reader.js'
import { fetchHeader } from './fetch-headers.js'
import { fetchLogsOfBlock } from './fetch-logs.js'
import { fetchTransactions } from './fetch-transactions.js'
import { followChildren } from './follow-children.js'
import type { EvmHeader } from './parse-header.js'
import type { EvmLog } from './parse-log.js'

/** One block near the head with its events; null where the node has none at that height. */
export async function fetchBlock(
  node: Endpoint,
  reader: EventReader,
  wish: { readonly at: Height; readonly transactions: boolean },
  scope: AbortSignal,
): Promise<NodeAnswer<SourceBlock> | null> {
  const header = await fetchHeader(node, wish.at, scope)
  if (header === null) return null
  const filters = reader.filters()
  const first: EvmLog[] = []
  for (const filter of filters)
    for (const log of await fetchLogsOfBlock(node, filter, header, scope)) first.push(log)
  const confirmed = await confirmEmpty(node, reader, first.length > 0 ? [] : [header], scope)
  const { logs, children } = await followChildren(
    reader,
    first.length > 0 ? first : confirmed.logs,
    filters,
    // The receipts have the logs of all addresses already.
    async (filter) => (confirmed.logs.length > 0 ? [] : fetchLogsOfBlock(node, filter, header, scope)),
  )
  const facts = reader.read(node, header, logs, children)
  const transactions = wish.transactions ? await transactionsOf(node, header, facts.events, scope) : []
  return { node, answer: { ref: header.ref, ...facts, transactions }, doubtful: confirmed.doubtful }
}

async function transactionsOf(
  node: Endpoint,
  header: EvmHeader,
  events: SourceBlock['events'],
  scope: AbortSignal,
): Promise<SourceBlock['transactions']> {
  const [transactions = []] = await fetchTransactions(node, [{ header, events }], scope)
  return transactions
}
