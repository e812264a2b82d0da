import type { Hex } from '@lockstep/domain'
import { CallFailure } from './call-failure.js'
import type { Endpoint } from './endpoint.js'
import { isUnsupported } from './judge-failure.js'
import type { EvmHeader } from './parse-header.js'
import { type EvmLog, parseLog } from './parse-log.js'
import { readBytes, readFields, readList } from './read-shape.js'

const OF_BLOCK = 'eth_getBlockReceipts'
const OF_TRANSACTION = 'eth_getTransactionReceipt'

/**
 * All logs of the block, out of its receipts. Receipts that the block's answer lacks are asked for singly: there
 * are nodes that leave some out. One that is not to be had singly either has no logs that anybody could know.
 */
export async function fetchReceiptLogs(
  node: Endpoint,
  header: EvmHeader,
  scope: AbortSignal,
): Promise<EvmLog[]> {
  const ofBlock = (await fetchBlockReceipts(node, header, scope)) ?? []
  const known = new Set(ofBlock.map((receipt) => receipt.txHash))
  const missing = (header.transactions ?? []).filter((hash) => !known.has(hash))
  const calls = missing.map((hash) => ({ method: OF_TRANSACTION, params: [hash] }))
  const answers = await node.callMany(calls, scope)
  const singly = answers
    .filter((answer) => answer !== null)
    .map((answer) => parseReceipt(node, OF_TRANSACTION, answer))
  return [...ofBlock, ...singly].flatMap((receipt) => receipt.logs)
}

/** All logs of the block if the node has `eth_getBlockReceipts`, else null. */
export async function fetchBlockReceiptLogs(
  node: Endpoint,
  header: EvmHeader,
  scope: AbortSignal,
): Promise<EvmLog[] | null> {
  const receipts = await fetchBlockReceipts(node, header, scope)
  return receipts?.flatMap((receipt) => receipt.logs) ?? null
}

interface Receipt {
  readonly txHash: Hex
  readonly logs: readonly EvmLog[]
}

async function fetchBlockReceipts(
  node: Endpoint,
  header: EvmHeader,
  scope: AbortSignal,
): Promise<Receipt[] | null> {
  if (!node.hasBlockReceipts) return null
  try {
    const answer = await node.call({ method: OF_BLOCK, params: [header.ref.hash] }, scope)
    if (answer === null)
      throw node.malformed(OF_BLOCK, `it has no block ${header.ref.hash}, which it gave just now`)
    return readList(node, OF_BLOCK, 'result', answer).map((receipt) => parseReceipt(node, OF_BLOCK, receipt))
  } catch (error) {
    if (!(error instanceof CallFailure) || error.facts.code === null) throw error
    if (isUnsupported(error)) node.hasBlockReceipts = false
    return null
  }
}

/** Transaction hash and logs; everything else in a receipt differs from chain to chain and is not read. */
function parseReceipt(node: Endpoint, method: string, answer: unknown): Receipt {
  const receipt = readFields(node, method, 'receipt', answer)
  const logs = readList(node, method, 'logs', receipt.logs)
  return {
    txHash: readBytes(node, method, 'transactionHash', receipt.transactionHash, 32),
    logs: logs.map((log) => {
      const own = readFields(node, method, 'log', log)
      return parseLog(node, method, {
        ...own,
        transactionIndex: own.transactionIndex ?? receipt.transactionIndex,
      })
    }),
  }
}
