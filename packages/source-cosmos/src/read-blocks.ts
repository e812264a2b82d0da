import { createHash } from 'node:crypto'
import type { CosmosContractOptions } from '@lockstep/config'
import { type Hex, hexOf, type SourceBlock, TX_INDEX_END_BLOCK } from '@lockstep/domain'
import { type BlockHeader, type BlockResults, parseBlockResults } from './answers.js'
import { selectEvents } from './block-events.js'
import type { VerifiedEndpoint } from './comet-endpoint.js'
import { eachLimited } from './each-limited.js'
import { pause } from './pause.js'
import { readHeaders } from './read-headers.js'
import { RpcErrorAnswer } from './rpc-error-answer.js'
import { ShapeError } from './wire.js'

/** Heights in flight at once: hides a round trip of 20 ms (some 250 heights a second); more trips rate limits. */
const HEIGHTS_AT_ONCE = 16

/**
 * A node announces a block before it has stored its results, and behind one address there may be several nodes, some
 * a moment behind: 1.5 s in all, some blocks' worth of patience.
 */
export const LAG_PAUSES_MS: readonly number[] = [100, 200, 400, 800]

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
  contracts: readonly CosmosContractOptions[],
  signal?: AbortSignal,
): Promise<SourceBlock[]> {
  const blocks = await eachLimited(headers, HEIGHTS_AT_ONCE, (header) =>
    readBlock(node, header, contracts, signal),
  )
  await refuseMovedChain(node, headers, signal)
  return blocks
}

async function readBlock(
  node: VerifiedEndpoint,
  header: BlockHeader,
  contracts: readonly CosmosContractOptions[],
  signal: AbortSignal | undefined,
): Promise<SourceBlock> {
  const results = await readResults(node, header, signal)
  const events = eventsOf(node, results, contracts)
  // The block itself is asked for only where its transactions' hashes are needed: on most heights nothing matches.
  const inTxs = (txIndex: number) => txIndex >= 0 && txIndex < TX_INDEX_END_BLOCK
  if (!events.some(({ txIndex }) => inTxs(txIndex)))
    return { ref: header.ref, events, children: [], transactions: [] }
  const hashes = await readTxHashes(node, header, signal)
  return {
    ref: header.ref,
    events: events.map((event) => ({ ...event, txHash: hashes[event.txIndex] ?? event.txHash })),
    children: [],
    transactions: [],
  }
}

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

const lagged = (endpoint: VerifiedEndpoint['endpoint'], height: number, error: unknown) =>
  endpoint.unavailable(
    `it has block ${height}, but not its results: ${error instanceof RpcErrorAnswer ? error.text : String(error)}`,
  )

function eventsOf(
  { endpoint, dialect }: VerifiedEndpoint,
  results: BlockResults,
  contracts: readonly CosmosContractOptions[],
) {
  try {
    return selectEvents(results, dialect, contracts)
  } catch (error) {
    if (error instanceof ShapeError) throw endpoint.malformed('block_results', error.message)
    throw error
  }
}

async function readTxHashes(
  { endpoint, client }: VerifiedEndpoint,
  { ref, txs }: BlockHeader,
  signal: AbortSignal | undefined,
): Promise<Hex[]> {
  const { blockId, block } = await endpoint.askCosmjs('block', signal, () => client.block(ref.height))
  if (hexOf(blockId.hash) !== ref.hash) {
    throw endpoint.malformed(
      'block',
      `block ${ref.height} is ${hexOf(blockId.hash)}, but its header was ${ref.hash}`,
    )
  }
  if (block.txs.length !== txs) {
    throw endpoint.malformed('block', `it has ${block.txs.length} transactions, but its header counts ${txs}`)
  }
  return block.txs.map((tx) => hexOf(createHash('sha256').update(tx).digest()))
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
