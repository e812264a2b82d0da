/*
 * Goal: the simulated node is a node to an unmodified client, and lies only where told.
 * Method: viem over HTTP; what it says is compared with what the test wrote.
 */
import { createPublicClient, http, type PublicClient } from 'viem'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { RpcFault } from '../rpc/index.js'
import { addressOf, SimulatedEvmChain, SimulatedEvmNode, TRANSFER_EVENT, transferLog } from './index.js'

const TOKEN = addressOf(0x70)
const transfer = (value: bigint, token = TOKEN) =>
  transferLog({ token, from: addressOf(1), to: addressOf(2), value })

let node: SimulatedEvmNode
let client: PublicClient

beforeEach(async () => {
  node = new SimulatedEvmNode({ chainId: 99 })
  client = createPublicClient({ transport: http(await node.start(), { retryCount: 0 }), cacheTime: 0 })
})
afterEach(() => node.stop())

describe('serves', () => {
  test('chain id, head and linked blocks', async () => {
    node.extend([{ logs: [transfer(1n)] }, {}])
    expect([await client.getChainId(), await client.getBlockNumber()]).toEqual([99, 2n])
    const block = await client.getBlock({ blockNumber: 2n })
    expect(block.parentHash).toBe((await client.getBlock({ blockNumber: 1n })).hash)
    expect(await client.getBlock({ blockHash: block.hash })).toEqual(block)
    expect(await client.request({ method: 'net_version' } as never)).toBe('99')
  })

  test('tags by their depths', async () => {
    node.extend(100)
    const numberOf = async (blockTag: 'latest' | 'safe' | 'finalized' | 'earliest') =>
      (await client.getBlock({ blockTag })).number
    expect([
      await numberOf('latest'),
      await numberOf('safe'),
      await numberOf('finalized'),
      await numberOf('earliest'),
    ]).toEqual([100n, 68n, 36n, 0n])
    node.chain.finalizedDepth = 0
    expect(await numberOf('finalized')).toBe(100n)
  })

  test('logs by range, hash, address and topics', async () => {
    const [block] = node.extend([
      { logs: [transfer(1n), transfer(2n, addressOf(0x71))] },
      { logs: [transfer(3n)] },
    ])
    const all = await client.getLogs({ event: TRANSFER_EVENT, fromBlock: 0n, toBlock: 2n })
    expect(all.map((log) => [log.blockNumber, log.logIndex, log.transactionIndex, log.args.value])).toEqual([
      [1n, 0, 0, 1n],
      [1n, 1, 1, 2n],
      [2n, 0, 0, 3n],
    ])
    expect(await client.getLogs({ address: TOKEN, fromBlock: 0n, toBlock: 2n })).toHaveLength(2)
    expect(await client.getLogs({ blockHash: block?.hash })).toHaveLength(2)
    const from = (who: number) =>
      client.getLogs({ event: TRANSFER_EVENT, args: { from: addressOf(who) }, fromBlock: 0n })
    const to = (who: number) =>
      client.getLogs({ event: TRANSFER_EVENT, args: { to: [addressOf(who), addressOf(7)] }, fromBlock: 0n })
    expect([
      (await from(1)).length,
      (await from(3)).length,
      (await to(2)).length,
      (await to(3)).length,
    ]).toEqual([3, 0, 3, 0])
  })

  test('receipts and transactions', async () => {
    const [block] = node.extend([{ logs: [transfer(1n)] }])
    const hash = block?.transactions[0]?.hash as `0x${string}`
    const receipt = await client.getTransactionReceipt({ hash })
    expect([receipt.blockHash, receipt.logs.length]).toEqual([block?.hash, 1])
    expect((await client.getTransaction({ hash })).blockNumber).toBe(1n)
    expect(await client.request({ method: 'eth_getBlockReceipts', params: ['0x1'] } as never)).toHaveLength(1)
    expect(
      (await client.getBlock({ blockNumber: 1n, includeTransactions: true })).transactions[0]?.hash,
    ).toBe(hash)
  })

  test.each([
    [{ fromBlock: '0x2', toBlock: '0x1' }, /invalid block range params/],
    [{ fromBlock: '0x1', toBlock: '0x9' }, /beyond current head/],
    [{ blockHash: `0x${'1'.repeat(64)}` }, /unknown block/],
    [{ blockHash: `0x${'1'.repeat(64)}`, fromBlock: '0x1' }, /cannot specify both/],
  ])('refuses %j as geth does', async (filter, words) => {
    node.extend(3)
    await expect(client.request({ method: 'eth_getLogs', params: [filter] } as never)).rejects.toThrow(words)
  })
})

describe('the chain', () => {
  test('forks into other hashes with the same content, the same on every run', () => {
    const write = () => {
      const chain = new SimulatedEvmChain({ chainId: 1, seed: 7 })
      const before = chain.extend([{ logs: [transfer(1n)] }, {}])
      const after = chain.fork(2, [{ logs: [transfer(1n)] }, {}, {}])
      return [...before, ...after].map(({ hash }) => hash)
    }
    const hashes = write()
    expect(new Set(hashes).size).toBe(5)
    expect(write()).toEqual(hashes)
  })

  test('keeps left blocks by hash and forgets their transactions', async () => {
    const [old] = node.extend([{ logs: [transfer(1n)] }])
    const hash = old?.transactions[0]?.hash as `0x${string}`
    node.fork(1)
    expect((await client.getBlock({ blockHash: old?.hash })).hash).toBe(old?.hash)
    await expect(client.getTransactionReceipt({ hash })).rejects.toThrow(/could not be found/)
  })

  test('takes times as they are given', () => {
    const blocks = node.extend([{ time: 50 }, { time: 50 }, { time: 40 }, {}])
    expect(blocks.map(({ time }) => time)).toEqual([50, 50, 40, 52])
  })

  test('refuses to lose its first block', () => {
    node.extend(2)
    expect(() => node.rollback(3)).toThrow(RangeError)
  })

  test('may be served by two nodes', async () => {
    const other = new SimulatedEvmNode(node.chain)
    node.extend(5)
    const second = createPublicClient({ transport: http(await other.start()), cacheTime: 0 })
    other.lowerHead(2)
    expect([await client.getBlockNumber(), await second.getBlockNumber()]).toEqual([5n, 3n])
    await other.stop()
  })
})

describe('lies', () => {
  const blockAt = (height: number) =>
    client.request({ method: 'eth_getBlockByNumber', params: [`0x${height.toString(16)}`, false] })

  test('by stalling, through a fork of its chain', async () => {
    node.extend(5)
    node.stall()
    const before = await blockAt(5)
    node.fork(2, 10)
    expect([await client.getBlockNumber(), await blockAt(5)]).toEqual([5n, before])
    node.resume()
    expect(await client.getBlockNumber()).toBe(13n)
    expect(await blockAt(5)).not.toEqual(before)
  })

  test('about single heights, pruned ones and the head', async () => {
    node.extend(5)
    node.hide(3)
    node.prune(2)
    node.lowerHead(1)
    const found = await Promise.all(
      [0, 1, 2, 3, 4, 5].map(async (height) => (await blockAt(height)) !== null),
    )
    expect(found).toEqual([false, false, true, false, true, false])
    expect((await client.getBlock({ blockTag: 'earliest' })).number).toBe(2n)
  })

  test('in the words of an override, which may give the honest answer too', async () => {
    node.reportedChainId = 5
    expect(await client.getChainId()).toBe(5)
    node.answer('eth_chainId', (_, honest) => `${honest()}0`)
    expect(await client.getChainId()).toBe(0x50)
    node.answer('eth_chainId', () => {
      throw new RpcFault(-32000, 'no')
    })
    await expect(client.getChainId()).rejects.toThrow(/no/)
    node.answer('eth_chainId', null)
    expect(await client.getChainId()).toBe(5)
  })

  test('by refusing wide log queries, and by cutting those beyond its head', async () => {
    node.extend([{ logs: [transfer(1n)] }, {}, {}])
    node.limitLogRange(2, { code: -32005, message: 'too wide' })
    await expect(client.getLogs({ fromBlock: 0n, toBlock: 2n })).rejects.toThrow(/too wide/)
    node.limitLogRange(2, { kind: 'status', status: 413 })
    await expect(client.getLogs({ fromBlock: 0n, toBlock: 2n })).rejects.toThrow(/413/)
    expect(await client.getLogs({ fromBlock: 1n, toBlock: 2n })).toHaveLength(1)
    node.limitLogRange(100, { code: 0, message: '' })
    node.refusesBeyondHead = false
    expect(await client.getLogs({ fromBlock: 1n, toBlock: 50n })).toHaveLength(1)
    expect(await client.getLogs({ fromBlock: 40n, toBlock: 50n })).toEqual([])
  })
})
