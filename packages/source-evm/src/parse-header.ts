import { type BlockRef, type Hex, height, type TimeUs, timeFromSeconds } from '@lockstep/domain'
import {
  type AnswerBlame,
  type Fields,
  readBytes,
  readFields,
  readIndex,
  readQuantity,
} from './read-shape.js'

/** What is read of a block: what links it, and what its logs are checked against. Everything else may be missing. */
export interface EvmHeader {
  readonly ref: BlockRef
  /** Null where the node gives none. */
  readonly logsBloom: Hex | null
  /** Hashes in the order of the block; null where the node gives no list. */
  readonly transactions: readonly Hex[] | null
}

const ZERO_HASH: Hex = `0x${'0'.repeat(64)}`
const BLOOM_BYTES = 256
// 9999-12-31T23:59:59Z: beyond it neither our texts nor PostgreSQL's reader agree, and a node that gives
// milliseconds here is a node of another kind.
const SECONDS_MAX = 253_402_300_799n

/** A block as `eth_getBlockBy…` gives it, with or without whole transactions. @throws MalformedAnswerError */
export function parseHeader(blame: AnswerBlame, method: string, answer: unknown): EvmHeader {
  const block = readFields(blame, method, 'block', answer)
  const number = readIndex(blame, method, 'number', block.number)
  const parent = readBytes(blame, method, 'parentHash', block.parentHash, 32)
  const ref: BlockRef = {
    height: height(number),
    hash: readBytes(blame, method, 'hash', block.hash, 32),
    parentHash: number === 0 && parent === ZERO_HASH ? null : parent,
    time: readTime(blame, method, block),
  }
  return {
    ref,
    logsBloom: readBloom(blame, method, block),
    transactions: readTransactions(blame, method, block),
  }
}

function readTime(blame: AnswerBlame, method: string, block: Fields): TimeUs {
  const seconds = readQuantity(blame, method, 'timestamp', block.timestamp)
  if (seconds > SECONDS_MAX) throw blame.malformed(method, `timestamp is ${seconds}, beyond the year 9999`)
  return timeFromSeconds(seconds)
}

function readBloom(blame: AnswerBlame, method: string, block: Fields): Hex | null {
  const bloom = block.logsBloom
  if (bloom === undefined || bloom === null) return null
  return readBytes(blame, method, 'logsBloom', bloom, BLOOM_BYTES)
}

function readTransactions(blame: AnswerBlame, method: string, block: Fields): readonly Hex[] | null {
  if (!Array.isArray(block.transactions)) return null
  return block.transactions.map((entry) => {
    const hash = typeof entry === 'object' && entry !== null ? entry.hash : entry
    return readBytes(blame, method, 'transactions', hash, 32)
  })
}
