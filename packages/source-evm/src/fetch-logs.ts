import { type Hex, height } from '@lockstep/domain'
import { CallFailure } from './call-failure.js'
import type { Endpoint } from './endpoint.js'
import { fetchHeaders, quantity } from './fetch-headers.js'
import { fetchReceiptLogs } from './fetch-receipts.js'
import { isPruned, isRangeRefusal, isUnsupported } from './judge-failure.js'
import type { LogFilter } from './log-filter.js'
import type { EvmHeader } from './parse-header.js'
import { type EvmLog, parseLogs } from './parse-log.js'

const METHOD = 'eth_getLogs'

/**
 * The logs of heights `from` to `to`, both included, whatever the node allows at once: where it refuses a width,
 * half of it is asked for, down to one block, which can still be had by its hash and from its receipts.
 *
 * The learned width belongs to the node: it is used for the next range too.
 */
export async function fetchLogs(
  node: Endpoint,
  filter: LogFilter,
  from: number,
  to: number,
  scope: AbortSignal,
): Promise<EvmLog[]> {
  const logs: EvmLog[] = []
  for (let next = from; next <= to; ) {
    const last = Math.min(to, next + node.logWidth.blocksMax - 1)
    const piece = await fetchPiece(node, filter, next, last, scope)
    if (piece === null) continue // the width is smaller now
    for (const log of piece) logs.push(log)
    next = last + 1
  }
  return logs
}

/** Null where the piece was refused as too wide. */
async function fetchPiece(
  node: Endpoint,
  filter: LogFilter,
  from: number,
  to: number,
  scope: AbortSignal,
): Promise<EvmLog[] | null> {
  const params = [{ ...filter, fromBlock: quantity(from), toBlock: quantity(to) }]
  try {
    const logs = parseLogs(node, METHOD, await node.call({ method: METHOD, params }, scope))
    const stray = logs.find(({ blockNumber }) => blockNumber < from || blockNumber > to)
    if (stray)
      throw node.malformed(METHOD, `asked for ${from} to ${to}, it gave a log of block ${stray.blockNumber}`)
    node.logWidth.widen(to - from + 1)
    return logs
  } catch (error) {
    if (!(error instanceof CallFailure)) throw error
    if (isPruned(error)) throw node.pruned(height(from))
    if (!isRangeRefusal(error)) throw error
    if (from === to) return fetchOneBlock(node, filter, from, scope)
    node.logWidth.narrow(to - from + 1, error)
    return null
  }
}

async function fetchOneBlock(
  node: Endpoint,
  filter: LogFilter,
  at: number,
  scope: AbortSignal,
): Promise<EvmLog[]> {
  const [header] = await fetchHeaders(node, [at], scope)
  return fetchLogsOfBlock(node, filter, header as EvmHeader, scope)
}

/**
 * The logs of one block, named by its hash: what comes is of this block, whatever the chain does meanwhile. From
 * the receipts, unfiltered, where the node refuses the log query.
 */
export async function fetchLogsOfBlock(
  node: Endpoint,
  filter: LogFilter,
  header: EvmHeader,
  scope: AbortSignal,
): Promise<EvmLog[]> {
  const blockHash: Hex = header.ref.hash
  try {
    return parseLogs(
      node,
      METHOD,
      await node.call({ method: METHOD, params: [{ ...filter, blockHash }] }, scope),
    )
  } catch (error) {
    if (!(error instanceof CallFailure) || !(isRangeRefusal(error) || isUnsupported(error))) throw error
    return fetchReceiptLogs(node, header, scope)
  }
}
