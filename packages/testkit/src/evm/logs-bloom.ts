import type { Hex } from '@lockstep/domain'
import { hexToBytes, keccak256, toHex } from 'viem'

const BLOOM_BYTES = 256

/** The bloom filter of a block: three bits for each address and topic (Yellow Paper, section 4.4.1). */
export function logsBloomOf(
  logs: readonly { readonly address: Hex; readonly topics: readonly Hex[] }[],
): Hex {
  const bloom = new Uint8Array(BLOOM_BYTES)
  for (const value of logs.flatMap(({ address, topics }) => [address, ...topics])) {
    const hash = hexToBytes(keccak256(value))
    for (const at of [0, 2, 4]) {
      const bit = (((hash[at] ?? 0) << 8) | (hash[at + 1] ?? 0)) % (8 * BLOOM_BYTES)
      const byte = BLOOM_BYTES - 1 - (bit >> 3)
      bloom[byte] = (bloom[byte] ?? 0) | (1 << (bit & 7))
    }
  }
  return toHex(bloom)
}
