import { type EventFact, type Hex, NO_BYTES, type TransactionFact } from '@lockstep/domain'
import type { Call, Endpoint } from './endpoint.js'
import { quantity } from './fetch-headers.js'
import type { EvmHeader } from './parse-header.js'
import { type Fields, readBytes, readFields, readIndex, readQuantity } from './read-shape.js'

const TRANSACTION = 'eth_getTransactionByBlockHashAndIndex'
const RECEIPT = 'eth_getTransactionReceipt'

export interface BlockEvents {
  readonly header: EvmHeader
  readonly events: readonly EventFact[]
}

/**
 * The transactions that hold the events, for each block in the order given: two calls each, in batches over all
 * blocks. Each answer carries the hash of its block. A log whose transaction the block does not list, and that the
 * node does not know, has none.
 *
 * @throws MalformedAnswerError where the node lacks a transaction that its block lists, or gives it of another block
 */
export async function fetchTransactions(
  node: Endpoint,
  blocks: readonly BlockEvents[],
  scope: AbortSignal,
): Promise<TransactionFact[][]> {
  const wanted = blocks.map(transactionsOf)
  const answers = await node.callMany(wanted.flat().flatMap(callsOf), scope)
  let next = 0
  return wanted.map((ofBlock) =>
    ofBlock.flatMap((transaction) => {
      const [answer, receipt] = [answers[next++], answers[next++]]
      return parseTransaction(node, transaction, answer, receipt)
    }),
  )
}

interface WantedTransaction {
  readonly blockHash: Hex
  readonly txHash: Hex
  /** As its events have it. */
  readonly txIndex: number
  /** Null: the block's answer has no list, or not this one in it. */
  readonly listedAt: number | null
}

/** In their order. */
function transactionsOf({ header, events }: BlockEvents): WantedTransaction[] {
  const byHash = new Map<Hex, WantedTransaction>()
  for (const { txHash, txIndex } of events) {
    if (txHash === NO_BYTES || byHash.has(txHash)) continue
    const at = header.transactions?.indexOf(txHash) ?? null
    if (at === -1) continue // kept with a warning; the node has nothing to say of it
    byHash.set(txHash, { blockHash: header.ref.hash, txHash, txIndex, listedAt: at })
  }
  return [...byHash.values()].sort((a, b) => a.txIndex - b.txIndex)
}

const callsOf = ({ blockHash, txHash, txIndex, listedAt }: WantedTransaction): Call[] => [
  { method: TRANSACTION, params: [blockHash, quantity(listedAt ?? txIndex)] },
  { method: RECEIPT, params: [txHash] },
]

function parseTransaction(
  node: Endpoint,
  wanted: WantedTransaction,
  answer: unknown,
  receiptAnswer: unknown,
): TransactionFact[] {
  const transaction = readProved(node, TRANSACTION, 'hash', wanted, answer)
  const receipt = readProved(node, RECEIPT, 'transactionHash', wanted, receiptAnswer)
  if (transaction === null || receipt === null) return []
  return [
    {
      txIndex: wanted.txIndex,
      txHash: wanted.txHash,
      success: readStatus(node, receipt),
      code: null,
      from: readAddress(node, 'from', transaction.from),
      to: readAddress(node, 'to', transaction.to),
      value: readDecimal(node, TRANSACTION, 'value', transaction.value),
      gasWanted: readDecimal(node, TRANSACTION, 'gas', transaction.gas),
      gasUsed: readDecimal(node, RECEIPT, 'gasUsed', receipt.gasUsed),
      fee: null,
      memo: null,
    },
  ]
}

/** Null where the node does not know it and the block does not list it. */
function readProved(
  node: Endpoint,
  method: string,
  hashField: string,
  { blockHash, txHash, listedAt }: WantedTransaction,
  answer: unknown,
): Fields | null {
  if (answer === null && listedAt === null) return null
  const fields = readFields(node, method, 'result', answer)
  const hash = readBytes(node, method, hashField, fields[hashField], 32)
  if (hash !== txHash && listedAt === null) return null // at that index stands another
  const ofBlock = readBytes(node, method, 'blockHash', fields.blockHash, 32)
  if (hash === txHash && ofBlock === blockHash) return fields
  throw node.malformed(
    method,
    `asked for transaction ${txHash} of block ${blockHash}, it gave ${hash} of block ${ofBlock}: the chain moved meanwhile`,
  )
}

/** EIP-658; before it (Byzantium) a receipt has the state's root instead, and whether it succeeded is not said. */
function readStatus(node: Endpoint, { status }: Fields): boolean | null {
  return isAbsent(status) ? null : readIndex(node, RECEIPT, 'status', status, 1) === 1
}

const readAddress = (node: Endpoint, what: string, value: unknown): Hex | null =>
  isAbsent(value) ? null : readBytes(node, TRANSACTION, what, value, 20)

const readDecimal = (node: Endpoint, method: string, what: string, value: unknown): string | null =>
  isAbsent(value) ? null : readQuantity(node, method, what, value).toString()

const isAbsent = (value: unknown): value is null | undefined => value === null || value === undefined
