import { RpcFault } from '../rpc/index.js'
import { blockAt } from './block-tags.js'
import type { RpcObject, ServedBlock, ServedChain, ServedLog } from './served-chain.js'

/** `eth_getLogs`, with geth's refusals in its words. */
export function matchLogs(chain: ServedChain, filter: RpcObject): ServedLog[] {
  const addresses = setOf(filter.address)
  const topics = Array.isArray(filter.topics) ? filter.topics.map(setOf) : []
  const matches = (log: ServedLog): boolean =>
    (addresses === null || addresses.has(log.address.toLowerCase())) &&
    topics.every((wanted, at) => {
      const topic = log.topics[at]
      return topic !== undefined && (wanted === null || wanted.has(topic.toLowerCase()))
    })
  return blocksOf(chain, filter).flatMap((block) => block.logs.filter(matches))
}

/** Null: anything. An empty list too, as the specification has it. */
function setOf(wanted: unknown): Set<string> | null {
  if (wanted === null || wanted === undefined) return null
  const values = (Array.isArray(wanted) ? wanted : [wanted]).map((value) => String(value).toLowerCase())
  return values.length === 0 ? null : new Set(values)
}

function blocksOf(chain: ServedChain, { blockHash, fromBlock, toBlock }: RpcObject): ServedBlock[] {
  if (blockHash === undefined) return blocksBetween(chain, ...boundsOf(chain, fromBlock, toBlock))
  if (fromBlock !== undefined || toBlock !== undefined) {
    const problem = 'cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other'
    throw new RpcFault(-32602, `invalid argument 0: ${problem}`)
  }
  const block = chain.byHash(String(blockHash))
  if (block === null) throw new RpcFault(-32000, 'unknown block')
  return [block]
}

/** First and last height of a log query; a query without bounds is for the newest block. */
export function boundsOf(chain: ServedChain, fromBlock: unknown, toBlock: unknown): [number, number] {
  const bound = (block: unknown): number => {
    const plain = typeof block === 'string' && block.startsWith('0x') ? Number(block) : null
    return plain ?? blockAt(chain, block ?? 'latest')?.number ?? chain.head.number
  }
  const [from, to] = [bound(fromBlock), bound(toBlock)]
  if (from > to) throw new RpcFault(-32602, 'invalid block range params')
  return [from, to]
}

function blocksBetween(chain: ServedChain, from: number, to: number): ServedBlock[] {
  if (to > chain.head.number) throw new RpcFault(-32602, 'block range extends beyond current head block')
  const blocks: ServedBlock[] = []
  for (let height = from; height <= to; height++) {
    const block = chain.at(height)
    if (block !== null) blocks.push(block)
  }
  return blocks
}
