/*
 * Goal: each method of the source gives whole, proved answers, and no answer where it cannot.
 * Method: the source over real HTTP against simulated nodes that fork, stall and lie.
 */
import type { EvmChainOptions } from '@lockstep/config'
import { type ChainSource, type Hex, height, MalformedAnswerError, NO_BYTES } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  addressOf,
  evmChainOptions,
  type LogWish,
  SimulatedEvmNode,
  TRANSFER_EVENT,
  transferLog,
} from '../../testkit/src/evm/index.js'
import { RpcFault } from '../../testkit/src/rpc/index.js'
import { createEvmSource } from './index.js'

const TOKEN = addressOf(0x70)
const OTHER = addressOf(0x71)

let node: SimulatedEvmNode
let source: ChainSource

beforeEach(async () => {
  node = new SimulatedEvmNode({ chainId: 1 })
  await node.start()
  source = sourceWith({})
})
afterEach(async () => {
  await source.close()
  await node.stop()
})

const sourceWith = (given: Partial<EvmChainOptions>): ChainSource =>
  createEvmSource(evmChainOptions({ rpc: [node.url], ...given }), {
    logger: silentLogger(),
    requestTimeoutMs: 2_000,
  })

const transfer = (value: bigint, more: Partial<LogWish> = {}): LogWish =>
  transferLog({ token: TOKEN, from: addressOf(1), to: addressOf(2), value }, more)

const valuesOf = (blocks: Awaited<ReturnType<ChainSource['range']>>['blocks']) =>
  blocks.flatMap(({ ref, events }) => events.map(({ args }) => `${ref.height}:${args?.value}`))

describe('block', () => {
  test('gives header and events', async () => {
    const [block] = node.extend([{ logs: [transfer(5n), transfer(6n)] }])
    const answer = await source.block(height(1))
    expect(answer?.ref).toEqual({
      height: 1,
      hash: block?.hash,
      parentHash: node.chain.first.hash,
      time: 1_700_000_012_000_000n,
    })
    expect(answer?.events.map(({ args, txIndex, eventIndex }) => [args, txIndex, eventIndex])).toEqual([
      [{ from: addressOf(1), to: addressOf(2), value: '5' }, 0, 0],
      [{ from: addressOf(1), to: addressOf(2), value: '6' }, 1, 1],
    ])
  })

  test('is null above the head, and genesis has no parent', async () => {
    expect(await source.block(height(1))).toBeNull()
    expect(await source.header(height(1))).toBeNull()
    expect((await source.header(height(0)))?.parentHash).toBeNull()
  })

  test('refuses a block of another height than was asked for', async () => {
    node.extend(2)
    node.answer('eth_getBlockByNumber', () => ({ ...node.chain.head.header, transactions: [] }))
    await expect(source.block(height(1))).rejects.toThrow(/asked for block 1, it gave block 2/)
  })

  test('refuses logs of another block hash', async () => {
    node.extend([{ logs: [transfer(5n)] }])
    node.answer('eth_getLogs', (_, honest) =>
      (honest() as object[]).map((log) => ({ ...log, blockHash: `0x${'ab'.repeat(32)}` })),
    )
    await expect(source.block(height(1))).rejects.toThrow(/a log says block 1 \(0xabab/)
  })

  test('refuses logs marked as removed', async () => {
    node.extend([{ logs: [transfer(5n, { fields: { removed: true } })] }])
    await expect(source.block(height(1))).rejects.toThrow(MalformedAnswerError)
  })

  test('merges a log that came twice, and refuses two different ones in its place', async () => {
    node.extend([{ logs: [transfer(5n)] }])
    node.answer('eth_getLogs', (_, honest) => [...(honest() as object[]), ...(honest() as object[])])
    expect((await source.block(height(1)))?.events).toHaveLength(1)
    node.answer('eth_getLogs', (_, honest) => {
      const [log] = honest() as object[]
      return [log, { ...log, address: OTHER }]
    })
    await expect(source.block(height(1))).rejects.toThrow(/two different logs 0/)
  })

  test('asks the receipts where the bloom filter contradicts an empty answer', async () => {
    node.extend([{ logs: [transfer(5n)] }, {}])
    node.answer('eth_getLogs', () => [])
    expect((await source.block(height(1)))?.events[0]?.args?.value).toBe('5')
    expect(node.countOf('eth_getBlockReceipts')).toBe(1)
    expect((await source.block(height(2)))?.events).toEqual([])
    expect(node.countOf('eth_getBlockReceipts')).toBe(1)
  })

  test('asks no receipts for a log of another address with the same signature', async () => {
    node.extend([{ logs: [transferLog({ token: OTHER, from: TOKEN, to: TOKEN, value: 1n })] }])
    source = sourceWith({ contracts: [{ contract: 'token', addresses: [TOKEN], events: [TRANSFER_EVENT] }] })
    // The token is in the bloom filter only as a topic, padded to 32 bytes: another value.
    expect((await source.block(height(1)))?.events).toEqual([])
    expect(node.countOf('eth_getBlockReceipts')).toBe(0)
  })

  test('believes an empty answer where the node has no block receipts, and asks for them once', async () => {
    node.extend([{ logs: [transfer(5n)] }])
    node.answer('eth_getLogs', () => [])
    node.answer('eth_getBlockReceipts', () => {
      throw new RpcFault(-32601, 'the method eth_getBlockReceipts does not exist/is not available')
    })
    expect((await source.block(height(1)))?.events).toEqual([])
    expect((await source.block(height(1)))?.events).toEqual([])
    expect(node.countOf('eth_getBlockReceipts')).toBe(1)
  })

  test('asks for block receipts again where they failed for once', async () => {
    node.extend([{ logs: [transfer(5n)] }])
    node.answer('eth_getLogs', () => [])
    node.answer('eth_getBlockReceipts', () => {
      throw new RpcFault(-32603, 'internal error')
    })
    expect((await source.block(height(1)))?.events).toEqual([])
    node.answer('eth_getBlockReceipts', null)
    expect((await source.block(height(1)))?.events).toHaveLength(1)
  })

  test('sends one log query for all contracts, and none where nothing is watched', async () => {
    node.extend(1)
    source = sourceWith({
      contracts: [
        { contract: 'a', addresses: [TOKEN], events: [TRANSFER_EVENT] },
        { contract: 'b', addresses: [OTHER], events: [TRANSFER_EVENT] },
      ],
    })
    await source.block(height(1))
    const queries = node.calls.filter(({ method }) => method === 'eth_getLogs')
    expect(queries.map(({ params }) => params)).toEqual([
      [expect.objectContaining({ address: [TOKEN, OTHER], blockHash: node.chain.head.hash })],
    ])
    source = sourceWith({ contracts: [] })
    expect((await source.block(height(1)))?.events).toEqual([])
    expect(node.countOf('eth_getLogs')).toBe(1)
  })
})

describe('odd logs (S17)', () => {
  const ZERO_HASH: Hex = `0x${'0'.repeat(64)}`
  const UNKNOWN: Hex = `0x${'77'.repeat(32)}`

  test('are stored with what is known of their transaction', async () => {
    const listed: Hex = `0x${'11'.repeat(32)}`
    node.extend([
      { logs: [transfer(1n, { txHash: ZERO_HASH, listed: false })] },
      { logs: [transfer(2n, { txHash: UNKNOWN, listed: false, fields: { transactionIndex: '0x3' } })] },
      {
        fields: { size: undefined },
        logs: [
          transfer(3n),
          transfer(4n, { txHash: listed, fields: { transactionIndex: undefined } }),
          transfer(5n, { txHash: UNKNOWN, listed: false, fields: { transactionIndex: undefined } }),
          transfer(6n, { fields: { transactionHash: null, transactionIndex: '0x7' } }),
        ],
      },
    ])
    const { blocks } = await source.range(height(1), height(3))
    const places = blocks.map(({ events }) =>
      events.map(({ txIndex, txHash, eventIndex, args }) => [txIndex, txHash, eventIndex, args?.value]),
    )
    expect(places).toEqual([
      [[0, ZERO_HASH, 0, '1']],
      [[3, UNKNOWN, 0, '2']],
      [
        [0, expect.stringMatching(/^0x[0-9a-f]{64}$/), 0, '3'],
        [1, listed, 1, '4'],
        [1, UNKNOWN, 2, '5'], // that of the log before it
        [7, NO_BYTES, 3, '6'],
      ],
    ])
    for (const block of blocks) expect(await source.block(block.ref.height)).toEqual(block)
  })
})

describe('range', () => {
  const extend = (count: number, every: number) =>
    node.extend(
      Array.from({ length: count }, (_, index) =>
        (index + 1) % every === 0 ? { logs: [transfer(BigInt(index + 1))] } : {},
      ),
    )

  test('gives both ends and the blocks that hold an event', async () => {
    extend(100, 10)
    const range = await source.range(height(5), height(95))
    expect([range.first.height, range.last.height]).toEqual([5, 95])
    expect(valuesOf(range.blocks)).toEqual([10, 20, 30, 40, 50, 60, 70, 80, 90].map((at) => `${at}:${at}`))
    expect(range.last.hash).toBe(node.chain.at(95)?.hash)
  })

  test('gives every block where all are wanted, in batches', async () => {
    extend(100, 10)
    source = sourceWith({ blocks: 'all' })
    const range = await source.range(height(1), height(100))
    expect(range.blocks.map(({ ref }) => ref.height)).toEqual(
      Array.from({ length: 100 }, (_, index) => index + 1),
    )
    expect(node.httpRequests).toBeLessThan(10)
  })

  test('of one block', async () => {
    extend(3, 3)
    const range = await source.range(height(3), height(3))
    expect([range.first, range.last]).toEqual([range.blocks[0]?.ref, range.blocks[0]?.ref])
  })

  test('above the head of the node is an error and never a hole', async () => {
    extend(50, 10)
    node.refusesBeyondHead = false
    await expect(source.range(height(40), height(51))).rejects.toMatchObject({ retryable: true })
    expect(node.countOf('eth_getLogs')).toBe(0)
  })

  test('whose chain moved between logs and headers is refused', async () => {
    extend(50, 10)
    node.answer('eth_getLogs', (_, honest) => {
      const logs = honest()
      node.fork(20, 30)
      return logs
    })
    await expect(source.range(height(1), height(45))).rejects.toThrow(/the chain moved meanwhile/)
  })

  test('whose blocks do not link is refused', async () => {
    extend(20, 1)
    node.answer('eth_getBlockByNumber', (params, honest) => {
      const block = honest() as object
      return params[0] === '0x7' ? { ...block, parentHash: `0x${'cd'.repeat(32)}` } : block
    })
    await expect(source.range(height(1), height(20))).rejects.toThrow(/block 7 .* does not follow block 6/)
  })

  test('with a log of a height that was not asked for is refused', async () => {
    extend(20, 5)
    node.answer('eth_getLogs', (_, honest) => [...(honest() as object[]), { ...node.chain.at(15)?.logs[0] }])
    await expect(source.range(height(1), height(12))).rejects.toThrow(/gave a log of block 15/)
  })

  test('with a missing block inside is refused', async () => {
    extend(20, 5)
    source = sourceWith({ blocks: 'all' })
    node.hide(8)
    await expect(source.range(height(1), height(20))).rejects.toThrow(/no block 8/)
  })

  test('below what the node kept is said to be pruned', async () => {
    extend(20, 5)
    node.prune(10)
    const error = await source.range(height(5), height(20)).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'height_pruned', facts: { height: 5, lowest: 10 } })
    node.prune(0)
    node.hide(5) // a mishap: the node has lower ones
    await expect(source.range(height(5), height(20))).rejects.toMatchObject({ code: 'malformed_answer' })
  })

  test('a pruned answer by code is said to be pruned', async () => {
    extend(5, 1)
    node.answer('eth_getBlockByNumber', () => {
      throw new RpcFault(4444, 'pruned history unavailable')
    })
    await expect(source.header(height(3))).rejects.toMatchObject({ code: 'height_pruned' })
    node.answer('eth_getBlockByNumber', null)
    node.answer('eth_getLogs', () => {
      throw new RpcFault(4444, 'pruned history unavailable')
    })
    await expect(source.range(height(3), height(4))).rejects.toMatchObject({ code: 'height_pruned' })
  })
})

describe('blockOfTransaction', () => {
  const TX: Hex = `0x${'42'.repeat(32)}`

  test('is the block that holds it', async () => {
    node.extend([{}, { transactions: [TX] }])
    expect(await source.blockOfTransaction(TX)).toEqual(await source.header(height(2)))
    expect(await source.blockOfTransaction(`0x${'43'.repeat(32)}`)).toBeNull()
  })

  test('falls back on the transaction, and is null for a pending one', async () => {
    node.extend([{ transactions: [TX] }])
    node.answer('eth_getTransactionReceipt', () => null)
    expect((await source.blockOfTransaction(TX))?.height).toBe(1)
    node.answer('eth_getTransactionByHash', (_, honest) => ({
      ...(honest() as object),
      blockNumber: null,
      blockHash: null,
    }))
    expect(await source.blockOfTransaction(TX)).toBeNull()
  })
})
