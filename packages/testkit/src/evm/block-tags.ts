import { RpcFault } from '../rpc/index.js'
import type { ServedBlock, ServedChain } from './served-chain.js'

/** A block by number or tag; `pending` is the head, since there is no pool. */
export function blockAt(chain: ServedChain, block: unknown): ServedBlock | null {
  const height = heightOf(chain, block)
  return height === null ? null : chain.at(height)
}

function heightOf(chain: ServedChain, block: unknown): number | null {
  switch (block) {
    case 'latest':
    case 'pending':
      return chain.head.number
    case 'earliest':
      return chain.first.number
    case 'finalized':
      return chain.finalized
    case 'safe':
      return chain.safe
    default:
      if (typeof block === 'string' && /^0x[0-9a-f]+$/i.test(block)) return Number(block)
      throw new RpcFault(-32602, `invalid argument 0: hex string ${JSON.stringify(block)}`)
  }
}
