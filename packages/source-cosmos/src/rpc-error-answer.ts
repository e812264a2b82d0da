import { type Height, height } from '@lockstep/domain'

/** The node answered, with a JSON-RPC error. Never leaves this package: see `meaningOf`. */
export class RpcErrorAnswer extends Error {
  constructor(
    readonly rpcCode: number,
    /** `message` and `data` of the error: CometBFT says "Internal error" in the one and the reason in the other. */
    readonly text: string,
  ) {
    super(text)
  }
}

/** What an error answer says about the block that was asked for. */
export type ErrorMeaning =
  /** The block is above the node's head. */
  | { readonly says: 'not yet' }
  /** The block is below what the node keeps. */
  | { readonly says: 'pruned'; readonly lowest: Height | null }
  | { readonly says: 'unknown transaction' }
  /** This node will never give this answer, however often it is asked. */
  | { readonly says: 'not kept' }
  | { readonly says: 'something else' }

/**
 * CometBFT has one error code (-32603) for everything, so the words decide. They are the same in all versions from
 * 0.34 to 1.0 (rpc/core: `env.getHeight`, `filterMinMax`, `Tx`, `BlockResults`).
 *
 * @param asked the lowest height that was asked for
 */
export function meaningOf(answer: RpcErrorAnswer, asked: Height): ErrorMeaning {
  const { text } = answer
  const lowest = /is not available, lowest height is (\d+)/.exec(text)
  if (lowest) return { says: 'pruned', lowest: height(lowest[1] ?? '0') }
  if (/must be less than or equal to/.test(text)) return { says: 'not yet' }
  if (/tx \([0-9A-Fa-f]*\) not found/.test(text)) return { says: 'unknown transaction' }
  if (/not persisting|indexing is disabled/.test(text)) return { says: 'not kept' }
  return minMaxMeaning(text, asked)
}

/**
 * `blockchain` first lifts the lower bound to the node's lowest height and cuts the upper one to its head, then
 * complains that they crossed: the bound that is not ours tells which of the two it was.
 */
function minMaxMeaning(text: string, asked: Height): ErrorMeaning {
  const crossed = /min height (\d+) can't be greater than max height (\d+)/.exec(text)
  if (!crossed) return { says: 'something else' }
  const low = Number(crossed[1])
  return low > asked ? { says: 'pruned', lowest: height(low) } : { says: 'not yet' }
}
