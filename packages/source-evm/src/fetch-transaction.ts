import { type BlockRef, type Hex, height } from '@lockstep/domain'
import type { Endpoint } from './endpoint.js'
import { fetchHeader } from './fetch-headers.js'
import { readBytes, readFields, readIndex } from './read-shape.js'

// The receipt first: it exists for mined transactions alone. Some nodes keep transactions longer than receipts.
const METHODS = ['eth_getTransactionReceipt', 'eth_getTransactionByHash']

/** The block that holds the transaction; null where the node does not know it, or knows it as pending. */
export async function fetchBlockOfTransaction(
  node: Endpoint,
  txHash: Hex,
  scope: AbortSignal,
): Promise<BlockRef | null> {
  for (const method of METHODS) {
    const answer = await node.call({ method, params: [txHash] }, scope)
    if (answer === null) continue
    const found = readFields(node, method, 'result', answer)
    if (found.blockNumber === null) continue
    const number = height(readIndex(node, method, 'blockNumber', found.blockNumber))
    const hash = readBytes(node, method, 'blockHash', found.blockHash, 32)
    const header = await fetchHeader(node, number, scope)
    if (header?.ref.hash === hash) return header.ref
    throw node.malformed(
      method,
      `block ${number} has hash ${header?.ref.hash ?? '(none)'}, and the transaction says ${hash}`,
    )
  }
  return null
}
