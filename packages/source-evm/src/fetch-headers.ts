import { type Height, height } from '@lockstep/domain'
import { CallFailure } from './call-failure.js'
import type { Call, Endpoint } from './endpoint.js'
import { isPruned } from './judge-failure.js'
import { type EvmHeader, parseHeader } from './parse-header.js'

const METHOD = 'eth_getBlockByNumber'

/** The header at the height; null where the node answers null. @throws HeightPrunedError, MalformedAnswerError */
export async function fetchHeader(node: Endpoint, at: Height, scope: AbortSignal): Promise<EvmHeader | null> {
  try {
    return headerAt(node, at, await node.call(headerCall(at), scope))
  } catch (error) {
    throw error instanceof CallFailure && isPruned(error) ? node.pruned(at) : error
  }
}

/** The headers at the heights, in their order. A missing one is an error: all of them lie below the node's head. */
export async function fetchHeaders(
  node: Endpoint,
  heights: readonly number[],
  scope: AbortSignal,
): Promise<EvmHeader[]> {
  const answers = await node.callMany(heights.map(headerCall), scope)
  return heights.map((at, index) => {
    const header = headerAt(node, height(at), answers[index])
    if (header === null) throw node.malformed(METHOD, `it has no block ${at}, which is below one that it has`)
    return header
  })
}

/** `"0x10"` for 16. */
export const quantity = (value: number): string => `0x${value.toString(16)}`

const headerCall = (at: number): Call => ({ method: METHOD, params: [quantity(at), false] })

/** Also guards against answers of a batch that came in the wrong order. */
function headerAt(node: Endpoint, at: Height, answer: unknown): EvmHeader | null {
  if (answer === null) return null
  const header = parseHeader(node, METHOD, answer)
  if (header.ref.height === at) return header
  throw node.malformed(METHOD, `asked for block ${at}, it gave block ${header.ref.height}`)
}
