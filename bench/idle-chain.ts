import {
  type BlockRef,
  type ChainSource,
  chainKey,
  type Height,
  type Hex,
  height,
  timeFromSeconds,
} from '@lockstep/domain'

const hashOf = (h: number): Hex => `0x${h.toString(16).padStart(64, '0')}`

/** Block `h` of an even chain: 12 s apart, from a fixed time on. */
export const evenBlock = (h: number): BlockRef => ({
  height: height(h),
  hash: hashOf(h + 1),
  parentHash: hashOf(h),
  time: timeFromSeconds(1_700_000_000 + 12 * h),
})

/** A chain whose node answers at once; what remains is our own time. */
export function evenSource(name: string, headAt: () => number, onFetch: () => void = () => {}): ChainSource {
  const header = async (h: Height): Promise<BlockRef> => evenBlock(h)
  const source: ChainSource = {
    chain: chainKey(name),
    check: async () => {},
    tip: async () => {
      onFetch()
      return { head: evenBlock(headAt()), finalized: null }
    },
    header,
    block: async (h) => {
      onFetch()
      return { ref: evenBlock(h), events: [], children: [], transactions: [] }
    },
    range: async (from, to) => ({ first: evenBlock(from), blocks: [], last: evenBlock(to) }),
    blockOfTransaction: async () => null,
    asking: () => source,
    onHead: () => () => {},
    trouble: () => null,
    close: async () => {},
  }
  return source
}
