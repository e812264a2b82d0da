import { RpcFault } from '../rpc/index.js'
import { blockAt } from './block-tags.js'
import { matchLogs } from './match-logs.js'
import { quantity, type RpcObject, type ServedBlock, type ServedChain } from './served-chain.js'

/** Answers a method as geth does. */
export function answerEthMethod(chain: ServedChain, method: string, params: readonly unknown[]): unknown {
  switch (method) {
    case 'eth_chainId':
      return quantity(chain.chainId)
    case 'net_version':
      return String(chain.chainId)
    case 'eth_blockNumber':
      return quantity(chain.head.number)
    case 'eth_getBlockByNumber':
      return blockAnswer(blockAt(chain, params[0]), params[1] === true)
    case 'eth_getBlockByHash':
      return blockAnswer(chain.byHash(String(params[0])), params[1] === true)
    case 'eth_getLogs':
      return matchLogs(chain, filterOf(params[0]))
    case 'eth_getBlockReceipts':
      return receiptsOf(chain, params[0])
    case 'eth_getTransactionReceipt':
      return inTransaction(chain, params[0], (block) => block.receipts, 'transactionHash')
    case 'eth_getTransactionByBlockHashAndIndex':
      return chain.byHash(String(params[0]))?.transactions[Number(params[1])] ?? null
    case 'eth_getTransactionByHash':
      return inTransaction(chain, params[0], (block) => block.transactions, 'hash')
    default:
      throw new RpcFault(-32601, `the method ${method} does not exist/is not available`)
  }
}

function blockAnswer(block: ServedBlock | null, whole: boolean): RpcObject | null {
  if (block === null) return null
  const transactions = whole ? block.transactions : block.transactions.map((transaction) => transaction.hash)
  return { ...block.header, transactions }
}

function receiptsOf(chain: ServedChain, block: unknown): readonly RpcObject[] | null {
  const isHash = typeof block === 'string' && block.length === 66
  return (isHash ? chain.byHash(block) : blockAt(chain, block))?.receipts ?? null
}

function inTransaction(
  chain: ServedChain,
  txHash: unknown,
  list: (block: ServedBlock) => readonly RpcObject[],
  key: string,
): RpcObject | null {
  const hash = String(txHash).toLowerCase()
  const block = chain.byTransaction(hash)
  return block === null ? null : (list(block).find((entry) => entry[key] === hash) ?? null)
}

const filterOf = (filter: unknown): RpcObject => {
  if (typeof filter === 'object' && filter !== null) return filter as RpcObject
  throw new RpcFault(-32602, 'missing value for required argument 0')
}
