import { type Hex, NO_BYTES, TX_INDEX_END_BLOCK } from '@lockstep/domain'
import { type AnswerBlame, readBytes, readFields, readIndex, readList } from './read-shape.js'

/** A log as the node gave it, in one block. */
export interface EvmLog {
  readonly address: Hex
  readonly topics: readonly Hex[]
  readonly data: Hex
  readonly blockHash: Hex
  readonly blockNumber: number
  /** `NO_BYTES` where the node gives none; kept as it is also where it is all zeros. */
  readonly txHash: Hex
  /** Null where the node gives none. */
  readonly txIndex: number | null
  readonly logIndex: number
}

const TOPICS_MAX = 4 // LOG0 to LOG4 are all that the EVM has
const INDEX_MAX = TX_INDEX_END_BLOCK - 1 // an `integer` column holds both indexes

/** A list of logs. @throws MalformedAnswerError */
export const parseLogs = (blame: AnswerBlame, method: string, answer: unknown): EvmLog[] =>
  readList(blame, method, 'result', answer).map((log) => parseLog(blame, method, log))

/**
 * @throws MalformedAnswerError also for a log of a pending block (no block hash or number), and for one that is
 * marked as removed: it belongs to a block that the chain took back while it was asked
 */
export function parseLog(blame: AnswerBlame, method: string, answer: unknown): EvmLog {
  const log = readFields(blame, method, 'log', answer)
  if (log.removed === true) throw blame.malformed(method, 'a log is marked as removed')
  const topics = readList(blame, method, 'topics', log.topics)
  if (topics.length > TOPICS_MAX) throw blame.malformed(method, `a log has ${topics.length} topics`)
  return {
    address: readBytes(blame, method, 'address', log.address, 20),
    topics: topics.map((topic) => readBytes(blame, method, 'topics', topic, 32)),
    data: readBytes(blame, method, 'data', log.data),
    blockHash: readBytes(blame, method, 'blockHash', log.blockHash, 32),
    blockNumber: readIndex(blame, method, 'blockNumber', log.blockNumber),
    txHash: isAbsent(log.transactionHash)
      ? NO_BYTES
      : readBytes(blame, method, 'transactionHash', log.transactionHash, 32),
    txIndex: isAbsent(log.transactionIndex)
      ? null
      : readIndex(blame, method, 'transactionIndex', log.transactionIndex, INDEX_MAX),
    logIndex: readIndex(blame, method, 'logIndex', log.logIndex, INDEX_MAX),
  }
}

const isAbsent = (value: unknown): value is null | undefined => value === null || value === undefined
