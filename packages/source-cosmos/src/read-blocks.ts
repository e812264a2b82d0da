import { createHash } from 'node:crypto'
import {
  type EventFact,
  hexOf,
  type SourceBlock,
  type TransactionFact,
  TX_INDEX_END_BLOCK,
} from '@lockstep/domain'
import { type BlockHeader, type BlockResults, parseBlock, parseBlockResults } from './answers.js'
import { selectEvents } from './block-events.js'
import type { VerifiedEndpoint } from './comet-endpoint.js'
import { eachLimited } from './each-limited.js'
import type { EventFilters } from './event-filters.js'
import { pause } from './pause.js'
import { readHeaders } from './read-headers.js'
import { RpcErrorAnswer } from './rpc-error-answer.js'
import { transactionFact } from './transaction-facts.js'

/** Heights in flight at once: hides a round trip of 20 ms (some 250 heights a second); more trips rate limits. */
const HEIGHTS_AT_ONCE = 16

/**
 * A node announces a block before it has stored its results, and behind one address there may be several nodes, some
 * a moment behind: 1.5 s in all, some blocks' worth of patience.
 */
export const LAG_PAUSES_MS: readonly number[] = [100, 200, 400, 800]

/** What of the blocks is given. */
export interface BlockWish {
  readonly filters: EventFilters
  /** Whether the transactions of events come with them. */
  readonly transactions: boolean
}

/**
 * The blocks of these headers (ascending, no holes) with their events.
 *
 * Results name a height, never a hash. What ties them to the hash is the order: headers, results, then the headers
 * again. Where the hash is the same before and after, the chain did not move to another branch while results were
 * read.
 *
 * @throws MalformedAnswerError where the chain moved meanwhile, or counts and hashes contradict each other
 */
export async function readBlocks(
  node: VerifiedEndpoint,
  headers: readonly BlockHeader[],
  wish: BlockWish,
  signal?: AbortSignal,
): Promise<SourceBlock[]> {
  const blocks = await eachLimited(headers, HEIGHTS_AT_ONCE, (header) =>
    readBlock(node, header, wish, signal),
  )
  await refuseMovedChain(node, headers, signal)
  return blocks
}

async function readBlock(
  node: VerifiedEndpoint,
  header: BlockHeader,
  { filters, transactions }: BlockWish,
  signal: AbortSignal | undefined,
): Promise<SourceBlock> {
  const { ref } = header
  const results = await readResults(node, header, signal)
  const events = selectEvents(results, node.dialect.attributes, filters)
  // The block itself is asked for only where its transactions are needed: on most heights nothing matches.
  const txIndices = new Set(events.map(({ txIndex }) => txIndex).filter(isOfTransaction))
  if (txIndices.size === 0) return { ref, events, children: [], transactions: [] }
  const txs = await readTxs(node, header, signal)
  const hashes = txs.map((tx) => hexOf(createHash('sha256').update(tx).digest()))
  const withHash = (event: EventFact) => ({ ...event, txHash: hashes[event.txIndex] ?? event.txHash })
  const facts = results.txs.flatMap((result, txIndex): TransactionFact[] => {
    const [bytes, hash] = [txs[txIndex], hashes[txIndex]]
    if (!transactions || !txIndices.has(txIndex) || !bytes || !hash) return []
    return [transactionFact(txIndex, hash, bytes, result)]
  })
  return { ref, events: events.map(withHash), children: [], transactions: facts }
}

const isOfTransaction = (txIndex: number): boolean => txIndex >= 0 && txIndex < TX_INDEX_END_BLOCK

async function readResults(
  { endpoint }: VerifiedEndpoint,
  { ref, txs }: BlockHeader,
  signal: AbortSignal | undefined,
): Promise<BlockResults> {
  const params = { height: String(ref.height) }
  for (let attempt = 0; ; attempt += 1) {
    try {
      const results = await endpoint.ask('block_results', params, parseBlockResults, signal)
      if (results.height !== ref.height) {
        throw endpoint.malformed('block_results', `it is of block ${results.height}, not of ${ref.height}`)
      }
      if (results.txs.length !== txs) {
        const problem = `block ${ref.height} has ${txs} transactions, but results of ${results.txs.length}`
        throw endpoint.malformed('block_results', problem)
      }
      return results
    } catch (error) {
      endpoint.refusal('block_results', error, ref.height)
      const pauseMs = LAG_PAUSES_MS[attempt]
      if (pauseMs === undefined) throw lagged(endpoint, ref.height, error)
      await pause(pauseMs, signal)
    }
  }
}

/** The worker shows it as what its chain waits for, and asks again; nothing above is stored meanwhile. */
const lagged = (endpoint: VerifiedEndpoint['endpoint'], height: number, error: unknown) =>
  endpoint.unavailable(
    `degraded: it has block ${height}, but not its results: ` +
      `${error instanceof RpcErrorAnswer ? error.text : String(error)}`,
  )

/** The bytes of the block's transactions, of the very block that the header is of. */
async function readTxs(
  { endpoint }: VerifiedEndpoint,
  { ref, txs }: BlockHeader,
  signal: AbortSignal | undefined,
): Promise<readonly Buffer[]> {
  const params = { height: String(ref.height) }
  const body = await endpoint.ask('block', params, parseBlock, signal)
  if (body.hash !== ref.hash) {
    throw endpoint.malformed('block', `block ${ref.height} is ${body.hash}, but its header was ${ref.hash}`)
  }
  if (body.txs.length !== txs) {
    throw endpoint.malformed('block', `it has ${body.txs.length} transactions, but its header counts ${txs}`)
  }
  return body.txs
}

async function refuseMovedChain(
  { endpoint }: VerifiedEndpoint,
  headers: readonly BlockHeader[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const first = headers[0]
  const last = headers.at(-1)
  if (first === undefined || last === undefined) return
  const again = await readHeaders(endpoint, first.ref.height, last.ref.height, signal)
  const moved = headers.find(({ ref }, index) => again[index]?.ref.hash !== ref.hash)
  if (moved === undefined) return
  throw endpoint.malformed(
    'blockchain',
    `block ${moved.ref.height} changed its hash while its events were read`,
  )
}
