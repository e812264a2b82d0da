/*
 * Goal: recordings are served as they are, and simulated blocks have bloom filters as the chain has them.
 * Method: recorded blocks. Skipped without LOCKSTEP_REAL_DATA, save for one block whose filter stands here.
 */
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { callRpc } from './call-rpc.js'
import { loadRecordedEvmChain, replayedEvmNode } from './index.js'
import { logsBloomOf } from './logs-bloom.js'

const data = process.env.LOCKSTEP_REAL_DATA

/** The bits that are set, 0 being the lowest of the last byte. */
const bitsOf = (bloom: string): number[] => {
  const value = BigInt(bloom)
  return Array.from({ length: 2048 }, (_, bit) => bit).filter((bit) => (value >> BigInt(bit)) & 1n)
}

test('the bloom filter of the only log of Ethereum 1000010', () => {
  const log = {
    address: '0xb696c21c287ffa81f9dd79828557231c98d863c9',
    topics: ['0xe1fffcc4923d04b559f4d29a8bfc6cda04eb5b0d3c460751c2402c5c5cc9109c'],
  } as const
  expect(bitsOf(logsBloomOf([log]))).toEqual([70, 454, 864, 1002, 1082, 1311])
})

describe.skipIf(data === undefined)('recorded blocks (LOCKSTEP_REAL_DATA)', () => {
  const load = () => loadRecordedEvmChain(1, join(data ?? '', 'evm/ethereum-run-1000001'))

  test('have the bloom filters of their logs', () => {
    const chain = load()
    for (let height = 1_000_001; height <= 1_000_030; height++) {
      const block = chain.at(height)
      expect(logsBloomOf(block?.logs ?? [])).toBe(block?.header.logsBloom)
    }
  })

  test('are served, and null between them', async () => {
    const node = replayedEvmNode(load())
    const url = await node.start()
    const ask = (height: number) =>
      callRpc<{ hash: string; transactions: unknown[] } | null>(url, {
        method: 'eth_getBlockByNumber',
        params: [`0x${height.toString(16)}`, false],
      })
    const block = await ask(1_000_001)
    expect(block?.hash).toBe('0xcb5cab7266694daa0d28cbf40496c08dd30bf732c41e0455e7ad389c10d79f4f')
    expect(block?.transactions).toEqual([
      '0xefb6c796269c0d1f15fdedb5496fa196eb7fb55b601c0fa527609405519fd581',
    ])
    expect(await ask(1_000_031)).toBeNull()
    await node.stop()
  })
})
