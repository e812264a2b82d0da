/*
 * Goal: with `transactions`, a block comes with the transactions of its events, each proved to be of that block.
 * Method: a simulated node over HTTP, whose transactions and receipts say what a test wants, or lie.
 */
import { type ChainSource, type Hex, height, MalformedAnswerError } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  addressOf,
  evmChainOptions,
  type LogWish,
  SimulatedEvmNode,
  transferLog,
} from '../../testkit/src/evm/index.js'
import { createEvmSource } from './index.js'

const [T1, T2, T3]: Hex[] = ['11', '22', '33'].map((byte): Hex => `0x${byte.repeat(32)}`) as [Hex, Hex, Hex]

let node: SimulatedEvmNode
let source: ChainSource

beforeEach(async () => {
  node = new SimulatedEvmNode({ chainId: 1 })
  await node.start()
  source = createEvmSource(evmChainOptions({ rpc: [node.url], transactions: true }), {
    logger: silentLogger(),
  })
})
afterEach(async () => {
  await source.close()
  await node.stop()
})

const transfer = (more: Partial<LogWish> = {}): LogWish =>
  transferLog({ token: addressOf(9), from: addressOf(1), to: addressOf(2), value: 1n }, more)

test('gives each transaction of an event once, with what its receipt says', async () => {
  node.extend([
    {
      transactions: [T3],
      logs: [transfer({ txHash: T1 }), transfer({ txHash: T2 }), transfer({ txHash: T1 })],
      ofTransactions: {
        [T1]: {
          transaction: { from: addressOf(0xf1), to: null, value: '0x8ac7230489e80000', gas: '0x5208' },
          receipt: { status: '0x0', gasUsed: '0x5207' },
        },
        [T2]: { receipt: { status: undefined, root: `0x${'ab'.repeat(32)}` } },
      },
    },
  ])
  const block = await source.block(height(1))
  const common = { code: null, fee: null, memo: null }
  expect(block?.transactions).toEqual([
    {
      ...common,
      txIndex: 0,
      txHash: T1,
      success: false,
      from: addressOf(0xf1),
      to: null,
      value: '10000000000000000000',
      gasWanted: '21000',
      gasUsed: '20999',
    },
    expect.objectContaining({ txIndex: 1, txHash: T2, success: null }), // before Byzantium
  ])
})

test('gives them for a range as for each block, in few requests', async () => {
  node.extend(Array.from({ length: 30 }, (_, at) => (at % 2 === 0 ? { logs: [transfer()] } : {})))
  const { blocks } = await source.range(height(1), height(30))
  expect(node.httpRequests).toBeLessThan(10)
  expect(blocks).toHaveLength(15)
  for (const block of blocks) {
    expect(block.transactions.map(({ txHash }) => txHash)).toEqual(block.events.map(({ txHash }) => txHash))
    expect(await source.block(block.ref.height)).toEqual(block)
  }
})

test('asks for none where they are not wanted', async () => {
  await source.close()
  source = createEvmSource(evmChainOptions({ rpc: [node.url] }), { logger: silentLogger() })
  node.extend([{ logs: [transfer()] }])
  expect((await source.block(height(1)))?.transactions).toEqual([])
  expect(node.countOf('eth_getTransactionReceipt')).toBe(0)
})

test('keeps a log whose transaction the block does not list, without a transaction (S17)', async () => {
  const zero: Hex = `0x${'0'.repeat(64)}`
  node.extend([
    {
      logs: [
        transfer({ txHash: zero, listed: false }),
        transfer({ fields: { transactionHash: null } }),
        transfer(),
      ],
    },
  ])
  const block = await source.block(height(1))
  expect(block?.events).toHaveLength(3)
  expect(block?.transactions.map(({ txHash }) => txHash)).toEqual([block?.events[2]?.txHash])
})

describe('an answer that is not of the block is refused', () => {
  const other: Hex = `0x${'ee'.repeat(32)}`
  test.each<[string, string, (honest: object) => unknown]>([
    [
      'a transaction of another block',
      'eth_getTransactionByBlockHashAndIndex',
      (it) => ({ ...it, blockHash: other }),
    ],
    ['another transaction', 'eth_getTransactionByBlockHashAndIndex', (it) => ({ ...it, hash: other })],
    ['no transaction', 'eth_getTransactionByBlockHashAndIndex', () => null],
    ['a receipt of another block', 'eth_getTransactionReceipt', (it) => ({ ...it, blockHash: other })],
    [
      'a receipt of another transaction',
      'eth_getTransactionReceipt',
      (it) => ({ ...it, transactionHash: other }),
    ],
    ['no receipt', 'eth_getTransactionReceipt', () => null],
    ['a status that is none', 'eth_getTransactionReceipt', (it) => ({ ...it, status: '0x2' })],
  ])('%s', async (_, method, lie) => {
    node.extend([{ logs: [transfer()] }])
    node.answer(method, (_params, honest) => lie(honest() as object))
    await expect(source.block(height(1))).rejects.toThrow(MalformedAnswerError)
    await expect(source.range(height(1), height(1))).rejects.toThrow(MalformedAnswerError)
  })
})
