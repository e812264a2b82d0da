import type { Hex } from '@lockstep/domain'
import { keccak256 } from 'viem'

const BLOOM_BITS_MASK = 2047 // 2,048 bits

/**
 * Whether the value (an address or a topic) may be in the bloom filter of a block: no is certain, yes is not.
 * Yellow Paper, section 4.4.1 (M3:2048): three bits, each from two bytes of the keccak hash, modulo 2,048.
 */
export function bloomMayHold(bloom: Hex, value: Hex): boolean {
  return bloomBits(value).every((bit) => {
    const byte = Number.parseInt(
      bloom.substring(bloom.length - 2 * (bit >> 3) - 2, bloom.length - 2 * (bit >> 3)),
      16,
    )
    return (byte & (1 << (bit & 7))) !== 0
  })
}

/** The three bits of a value, 0 being the lowest bit of the last byte. */
function bloomBits(value: Hex): number[] {
  const hash = keccak256(value)
  return [2, 6, 10].map((at) => Number.parseInt(hash.slice(at, at + 4), 16) & BLOOM_BITS_MASK)
}
