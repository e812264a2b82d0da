/*
 * Goal: blocks of real chains, of all eras and oddities on record, are read as they are.
 * Method: recordings served over HTTP by a node, or given to the parsers. Skipped without LOCKSTEP_REAL_DATA.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { EvmChainOptions } from '@lockstep/config'
import { type ChainSource, type Hex, height } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import type { AbiEvent } from 'viem'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  type EvmNode,
  evmChainOptions,
  loadRecordedEvmChain,
  type RecordedEvmChain,
  replayedEvmNode,
} from '../../testkit/src/evm/index.js'
import { endpointOf } from '../../testkit/src/rpc/index.js'
import { Endpoint } from './endpoint.js'
import { createEvmSource } from './index.js'
import { BloomReader } from './logs-bloom.js'
import { parseHeader } from './parse-header.js'
import { parseLogs } from './parse-log.js'

const data = process.env.LOCKSTEP_REAL_DATA
if (data === undefined) console.log('LOCKSTEP_REAL_DATA is not set: recorded chains are not replayed')
const path = (...parts: string[]): string => join(data ?? '', 'evm', ...parts)
const readJson = (file: string): unknown => JSON.parse(readFileSync(file, 'utf8'))

/** Events that take any log with so many topics. */
const anyLog = [1, 2, 3, 4].map(
  (topics): AbiEvent => ({
    type: 'event',
    name: `Topics${topics}`,
    anonymous: true,
    inputs: Array.from({ length: topics }, (_, at) => ({ name: `t${at}`, type: 'bytes32', indexed: true })),
  }),
)
const EVERY_LOG = [{ contract: 'any', addresses: null, events: anyLog }]

let node: EvmNode<RecordedEvmChain>
let source: ChainSource

async function serve(chain: RecordedEvmChain, given: Partial<EvmChainOptions>): Promise<void> {
  node = replayedEvmNode(chain)
  await node.start()
  const options = evmChainOptions({ rpc: [node.url], chainId: String(chain.chainId), ...given })
  source = createEvmSource(options, { logger: silentLogger() })
}

describe.skipIf(data === undefined)('recorded chains (LOCKSTEP_REAL_DATA)', () => {
  afterEach(async () => {
    await source.close()
    await node.stop()
  })

  describe('Ethereum 1000000 to 1000050', () => {
    beforeEach(async () => {
      const chain = loadRecordedEvmChain(1, path('chains/ethereum/1000000'), path('ethereum-run-1000001'))
      await serve(chain, { contracts: EVERY_LOG, blocks: 'all' })
    })

    test('links, and gives the recorded logs', async () => {
      const range = await source.range(height(1_000_000), height(1_000_030))
      expect(range.blocks).toHaveLength(31)
      const recorded = readJson(path('ethereum-run-1000001/logs.json')) as Record<string, unknown>[]
      const facts = range.blocks.slice(1).flatMap(({ ref, events }) =>
        events.map(({ address, txHash, txIndex, eventIndex, raw }) => ({
          address,
          topics: raw.topics,
          data: raw.data,
          blockNumber: `0x${ref.height.toString(16)}`,
          transactionHash: txHash,
          transactionIndex: `0x${txIndex.toString(16)}`,
          blockHash: ref.hash,
          logIndex: `0x${eventIndex.toString(16)}`,
          removed: false,
        })),
      )
      expect(facts).toEqual(recorded)
      expect(range.last.time).toBe(BigInt(Number(node.chain.at(1_000_030)?.time)) * 1_000_000n)
    })

    test('gives each block alone as the range gives it', async () => {
      const { blocks } = await source.range(height(1_000_001), height(1_000_030))
      for (const block of blocks) expect(await source.block(block.ref.height)).toEqual(block)
    })

    test('does not take what was not recorded for a block', async () => {
      expect(await source.header(height(1_000_031))).toBeNull()
      await expect(source.range(height(1_000_025), height(1_000_045))).rejects.toMatchObject({
        retryable: true,
      })
    })

    test('finds the block of each transaction', async () => {
      for (const { transactionHash, blockHash } of readJson(path('ethereum-run-1000001/logs.json')) as {
        transactionHash: Hex
        blockHash: Hex
      }[]) {
        expect((await source.blockOfTransaction(transactionHash))?.hash).toBe(blockHash)
      }
    })

    test('decodes a real event', async () => {
      await source.close()
      const deposit = {
        type: 'event',
        name: 'Deposit',
        inputs: [
          { name: 'from', type: 'address' },
          { name: 'value', type: 'uint256' },
        ],
      } as const
      const options = evmChainOptions({
        rpc: [node.url],
        contracts: [{ contract: 'w', addresses: null, events: [deposit] }],
      })
      source = createEvmSource(options, { logger: silentLogger() })
      const { blocks } = await source.range(height(1_000_001), height(1_000_030))
      expect(blocks.map(({ ref, events }) => [ref.height, events[0]?.args])).toEqual([
        [1_000_010, { from: '0x63a9975ba31b0b9626b34300f7f627147df1f526', value: '316582190000000000' }],
        [1_000_026, expect.objectContaining({ value: expect.stringMatching(/^\d+$/) })],
      ])
    })

    test('has every log in the bloom filter of its block', () => {
      const blooms = new BloomReader()
      for (const block of [1_000_010, 1_000_023, 1_000_026]) {
        const served = node.chain.at(block)
        const bloom = served?.header.logsBloom as Hex
        for (const { address, topics } of served?.logs ?? []) {
          for (const value of [address, ...topics]) expect(blooms.mayHold(bloom, value)).toBe(true)
        }
        const strangers = Array.from(
          { length: 200 },
          (_, at) => `0x${(at + 1).toString(16).padStart(40, '0')}` as Hex,
        )
        expect(strangers.filter((stranger) => blooms.mayHold(bloom, stranger)).length).toBeLessThan(10)
      }
    })
  })

  test('Ethereum from genesis to 4095 links', async () => {
    await serve(loadRecordedEvmChain(1, path('ethereum-genesis-era')), { blocks: 'all' })
    const range = await source.range(height(0), height(4_095))
    expect(range.first.parentHash).toBeNull()
    expect(range.blocks).toHaveLength(4_096)
  })

  test.each([6_541, 6_542, 68_215, 68_216])('Cronos %i has the logs of its receipts', async (at) => {
    const receipts = readJson(path(`chains/cronos/${at}/receipts.json`)) as { logs: object[] }[]
    const chain = loadRecordedEvmChain(25, path(`chains/cronos/${at}`))
    await serve(chain, { contracts: EVERY_LOG, chainId: '25' })
    const fromLogs = await source.block(height(at))
    expect(fromLogs?.events).toHaveLength(receipts.flatMap(({ logs }) => logs).length)
    node.answer('eth_getLogs', () => {
      throw Object.assign(new Error('query returned more than 10000 results'))
    })
    expect(await source.block(height(at))).toEqual(fromLogs) // from the receipts, though some are missing
  })
})

describe.skipIf(data === undefined)('recorded answers (LOCKSTEP_REAL_DATA)', () => {
  const blame = new Endpoint(evmChainOptions({ rpc: [] }).chain, endpointOf('http://127.0.0.1:1'), 1)
  const resultOf = (answer: unknown): unknown =>
    typeof answer === 'object' && answer !== null && 'result' in answer ? answer.result : answer

  const folders = [
    'ethereum-forks',
    'ethereum-gappy-24476000',
    'ethereum-single',
    'optimism',
    'etherjar',
    'ethereum-etl',
  ]
  const files =
    data === undefined
      ? []
      : folders.flatMap((folder) => readdirSync(path(folder)).map((file) => path(folder, file)))
  const chains =
    data === undefined
      ? []
      : readdirSync(path('chains')).flatMap((chain) =>
          readdirSync(path('chains', chain)).map((at) => path('chains', chain, at, 'block.json')),
        )

  test('every block header is read', () => {
    let read = 0
    for (const file of [...files, ...chains].filter((name) => name.endsWith('.json'))) {
      const block = resultOf(readJson(file))
      if (typeof block !== 'object' || block === null || !('parentHash' in block)) continue
      const header = parseHeader(blame, 'eth_getBlockByNumber', block)
      expect(header.ref.hash).toBe('hash' in block && block.hash)
      read += 1
    }
    expect(read).toBeGreaterThan(25)
  })

  test('every list of logs is read', () => {
    let read = 0
    const lists = readdirSync(path('superwatcher-logs')).map((file) => path('superwatcher-logs', file))
    for (const file of [...lists, ...files.filter((name) => name.includes('getFilterLogs'))]) {
      const logs = resultOf(readJson(file)) as unknown[]
      expect(parseLogs(blame, 'eth_getLogs', logs)).toHaveLength(logs.length)
      read += logs.length
    }
    expect(read).toBeGreaterThan(10)
  })
})
