import type { Hex } from '@lockstep/domain'
import { keccak256 } from 'viem'

const BLOOM_BITS_MASK = 2047 // 2,048 bits

/**
 * Reads the bloom filters of blocks. What is looked for is the same for block after block, so that its hashes are kept:
 * three numbers for each address and topic of the config and each child.
 */
export class BloomReader {
  readonly #bits = new Map<Hex, readonly number[]>()

  /** Whether the value (an address or a topic) may be in the bloom filter of a block: no is certain, yes is not. */
  mayHold(bloom: Hex, value: Hex): boolean {
    const known = this.#bits.get(value)
    const bits = known ?? bloomBits(value)
    if (known === undefined) this.#bits.set(value, bits)
    return bits.every((bit) => {
      const at = bloom.length - 2 * (bit >> 3) - 2
      return (Number.parseInt(bloom.slice(at, at + 2), 16) & (1 << (bit & 7))) !== 0
    })
  }
}

/**
 * The three bits of a value, 0 being the lowest bit of the last byte: Yellow Paper, section 4.4.1 (M3:2048), each from
 * two bytes of the keccak hash, modulo 2,048.
 */
function bloomBits(value: Hex): number[] {
  const hash = keccak256(value)
  return [2, 6, 10].map((at) => Number.parseInt(hash.slice(at, at + 4), 16) & BLOOM_BITS_MASK)
}
