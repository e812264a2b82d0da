import { type Hex, NO_BYTES } from '@lockstep/domain'
import { keccak256, toHex } from 'viem'
import { logsBloomOf } from './logs-bloom.js'
import { quantity, type RpcObject, type ServedBlock, type ServedLog } from './served-chain.js'

/** A log that a test wants. */
export interface LogWish {
  readonly address: Hex
  readonly topics?: readonly Hex[]
  readonly data?: Hex
  /** Logs of one block with the same hash are of one transaction. Left out: a transaction of its own. */
  readonly txHash?: Hex
  /** Fields that overwrite the node's, `undefined` to leave one out: a log without `transactionIndex`, say. */
  readonly fields?: RpcObject
  /** False: the block does not list the transaction and there is no receipt of it. */
  readonly listed?: boolean
}

/** A block that a test wants. */
export interface BlockWish {
  /** Seconds; may equal that of the parent or lie below it. Left out: the parent's and the chain's block time. */
  readonly time?: number
  readonly logs?: readonly LogWish[]
  /** Hashes of transactions without logs. */
  readonly transactions?: readonly Hex[]
  /** Fields that overwrite those of the header, `undefined` to leave one out. */
  readonly fields?: RpcObject
  /** Likewise those of transactions and their receipts, by hash. */
  readonly ofTransactions?: Readonly<Record<Hex, TransactionWish>>
}

export interface TransactionWish {
  readonly transaction?: RpcObject
  readonly receipt?: RpcObject
}

export interface BlockPlace {
  readonly chainId: number
  readonly number: number
  readonly parentHash: Hex
  readonly time: number
  /** Sets a block apart from one with the same content on another branch. */
  readonly salt: string
}

const ZERO_ADDRESS: Hex = `0x${'0'.repeat(40)}`
const EMPTY_HASH: Hex = `0x${'0'.repeat(64)}`
const SENDER: Hex = `0x${'5e'.repeat(20)}`

/** The same place and wish give the same hashes, on every run and machine. */
export function makeBlock(place: BlockPlace, wish: BlockWish): ServedBlock {
  const logs = wish.logs ?? []
  const txHashes = logs.map((log, index) => log.txHash ?? hashOf([place, 'transaction', index]))
  const unlisted = txHashes.filter((_, index) => logs[index]?.listed === false)
  const listed = [...new Set([...txHashes, ...(wish.transactions ?? [])])].filter(
    (hash) => !unlisted.includes(hash),
  )
  const hash = hashOf([place, wish.logs ?? [], wish.transactions ?? []])
  const where = { blockHash: hash, blockNumber: quantity(place.number) }
  const served = logs.map((log, index) =>
    serveLog(log, where, { txHash: txHashes[index] as Hex, listed, index }),
  )
  const wishOf = (txHash: Hex): TransactionWish => wish.ofTransactions?.[txHash] ?? {}
  const receipts = listed.map((txHash, index) => ({
    ...receiptOf(txHash, index, where, served),
    ...wishOf(txHash).receipt,
  }))
  return {
    number: place.number,
    hash,
    parentHash: place.parentHash,
    time: place.time,
    header: { ...headerOf(place, hash, served), ...wish.fields },
    transactions: listed.map((txHash, index) => ({
      ...transactionOf(txHash, index, where),
      ...wishOf(txHash).transaction,
    })),
    receipts,
    logs: served,
  }
}

const hashOf = (content: unknown): Hex => keccak256(toHex(JSON.stringify(content)))

type Where = { readonly blockHash: Hex; readonly blockNumber: Hex }

function serveLog(
  log: LogWish,
  where: Where,
  of: { readonly txHash: Hex; readonly listed: readonly Hex[]; readonly index: number },
): ServedLog {
  const txIndex = of.listed.indexOf(of.txHash)
  return {
    address: log.address,
    topics: log.topics ?? [],
    data: log.data ?? NO_BYTES,
    ...where,
    transactionHash: of.txHash,
    transactionIndex: txIndex < 0 ? null : quantity(txIndex),
    logIndex: quantity(of.index),
    removed: false,
    ...log.fields,
  }
}

const headerOf = (place: BlockPlace, hash: Hex, logs: readonly ServedLog[]): RpcObject => ({
  number: quantity(place.number),
  hash,
  parentHash: place.parentHash,
  timestamp: quantity(place.time),
  logsBloom: logsBloomOf(logs),
  nonce: '0x0000000000000000',
  mixHash: EMPTY_HASH,
  sha3Uncles: EMPTY_HASH,
  transactionsRoot: EMPTY_HASH,
  stateRoot: EMPTY_HASH,
  receiptsRoot: EMPTY_HASH,
  miner: ZERO_ADDRESS,
  difficulty: '0x0',
  extraData: '0x',
  size: '0x220',
  gasLimit: '0x1c9c380',
  gasUsed: '0x0',
  baseFeePerGas: '0x7',
  uncles: [],
})

const transactionOf = (hash: Hex, index: number, where: Where): RpcObject => ({
  ...where,
  hash,
  transactionIndex: quantity(index),
  type: '0x0',
  from: SENDER,
  to: ZERO_ADDRESS,
  value: '0x0',
  gas: '0x5208',
  gasPrice: '0x7',
  nonce: '0x0',
  input: '0x',
  v: '0x1b',
  r: EMPTY_HASH,
  s: EMPTY_HASH,
})

function receiptOf(hash: Hex, index: number, where: Where, all: readonly ServedLog[]): RpcObject {
  const logs = all.filter((log) => log.transactionHash === hash)
  return {
    ...where,
    transactionHash: hash,
    transactionIndex: quantity(index),
    type: '0x0',
    status: '0x1',
    from: SENDER,
    to: ZERO_ADDRESS,
    contractAddress: null,
    gasUsed: '0x5208',
    cumulativeGasUsed: '0x5208',
    effectiveGasPrice: '0x7',
    logsBloom: logsBloomOf(logs),
    logs,
  }
}
