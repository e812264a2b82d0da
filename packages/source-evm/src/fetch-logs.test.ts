/*
 * Goal: a refused log query is narrowed whatever the wording, and each block is covered exactly once (S15).
 * Method: a node that refuses wide queries in the ways that nodes were seen to; the queries it answered are counted.
 */
import { type ChainSource, height } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  addressOf,
  evmChainOptions,
  type RangeRefusal,
  type RpcObject,
  SimulatedEvmNode,
  transferLog,
} from '../../testkit/src/evm/index.js'
import { RpcFault } from '../../testkit/src/rpc/index.js'
import { createEvmSource } from './index.js'

const BLOCKS = 600
const EVERY = 50

let node: SimulatedEvmNode
let source: ChainSource

beforeEach(async () => {
  node = new SimulatedEvmNode({ chainId: 1 })
  node.extend(
    Array.from({ length: BLOCKS }, (_, index) =>
      (index + 1) % EVERY === 0
        ? {
            logs: [
              transferLog({
                token: addressOf(9),
                from: addressOf(1),
                to: addressOf(2),
                value: BigInt(index + 1),
              }),
            ],
          }
        : {},
    ),
  )
  await node.start()
  source = createEvmSource(evmChainOptions({ rpc: [node.url] }), {
    logger: silentLogger(),
    requestTimeoutMs: 2_000,
  })
})
afterEach(async () => {
  await source.close()
  await node.stop()
})

/** The log queries by range, in order, as [from, to]. */
const queries = (): [number, number][] =>
  node.calls
    .filter(({ method }) => method === 'eth_getLogs')
    .map(({ params }) => (params as RpcObject[])[0] as RpcObject)
    .filter(({ fromBlock }) => fromBlock !== undefined)
    .map(({ fromBlock, toBlock }) => [Number(fromBlock), Number(toBlock)])

async function expectWholeRange(): Promise<void> {
  const range = await source.range(height(1), height(BLOCKS))
  const values = range.blocks.flatMap(({ events }) => events.map(({ args }) => Number(args?.value)))
  expect(values).toEqual(Array.from({ length: BLOCKS / EVERY }, (_, index) => (index + 1) * EVERY))
}

/** What the node answered covers the whole range once. */
function expectCoveredOnce(limit: number): void {
  const answered = queries().filter(([from, to]) => to - from + 1 <= limit)
  expect(answered.reduce((sum, [from, to]) => sum + to - from + 1, 0)).toBe(BLOCKS)
  for (const [index, [from]] of answered.slice(1).entries())
    expect(from).toBe((answered[index]?.[1] ?? 0) + 1)
}

describe('narrows a refusal', () => {
  const refusals: [string, RangeRefusal][] = [
    ['-32600 with words', { code: -32600, message: 'block range is too wide' }],
    ['-32602 with words', { code: -32602, message: 'range 600 exceeds limit of 100' }],
    ['-32005 with words', { code: -32005, message: 'query returned more than 10000 results' }],
    [
      'nested data',
      { code: -32000, message: 'execution failed', data: { message: 'exceed maximum block range: 100' } },
    ],
    ['HTTP 413 with HTML', { kind: 'status', status: 413, body: '<html>Request Entity Too Large</html>' }],
    [
      'HTTP 400 with a JSON-RPC error',
      {
        kind: 'status',
        status: 400,
        headers: { 'content-type': 'application/json' },
        body: '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"block range too large"}}',
      },
    ],
    ['HTTP 400 with plain words', { kind: 'status', status: 400, body: 'block range too large' }],
  ]
  test.each(refusals)('by %s', async (_, refusal) => {
    node.limitLogRange(100, refusal)
    await expectWholeRange()
    expectCoveredOnce(100)
  })

  test('by no answer, faster since each costs the time limit', async () => {
    node.limitLogRange(100, { kind: 'hang' })
    await expectWholeRange()
    expectCoveredOnce(100)
    expect(
      queries()
        .map(([from, to]) => to - from + 1)
        .slice(0, 2),
    ).toEqual([BLOCKS, BLOCKS / 8])
  })

  test('to the width that it suggests', async () => {
    node.limitLogRange(100, { code: -32600, message: 'this block range should work: [0x1, 0x64]' })
    await expectWholeRange()
    expect(queries().map(([from, to]) => to - from + 1)).toEqual([600, 100, 100, 100, 100, 100, 100])
  })

  test('and remembers the width', async () => {
    node.limitLogRange(100, { code: -32600, message: 'block range is too wide' })
    await expectWholeRange()
    const before = queries().length
    await source.range(height(1), height(150))
    expect(queries().slice(before)).toEqual([
      [1, 75],
      [76, 150],
    ])
  })

  test('and tries more again after a while', async () => {
    node.limitLogRange(10, { code: -32600, message: 'block range is too wide' })
    await expectWholeRange()
    node.limitLogRange(BLOCKS, { code: 0, message: '' })
    await expectWholeRange()
    const widths = queries().map(([from, to]) => to - from + 1)
    expect(widths.at(-2)).toBeGreaterThan(10)
  })
})

describe('a single block that is refused', () => {
  test('is asked for by its hash', async () => {
    node.limitLogRange(0, { code: -32005, message: 'query returned more than 10000 results' })
    const range = await source.range(height(49), height(51))
    expect(range.blocks.map(({ ref }) => ref.height)).toEqual([50])
    expect(node.countOf('eth_getBlockReceipts')).toBe(0)
  })

  test('is read from its receipts, those that the node leaves out singly', async () => {
    node.answer('eth_getLogs', () => {
      throw new RpcFault(-32005, 'query returned more than 10000 results')
    })
    node.answer('eth_getBlockReceipts', () => [])
    const range = await source.range(height(49), height(51))
    expect(range.blocks.map(({ ref }) => ref.height)).toEqual([50])
    expect(node.countOf('eth_getTransactionReceipt')).toBe(1)
    expect((await source.block(height(50)))?.events).toEqual(range.blocks[0]?.events)
  })
})

describe('does not narrow', () => {
  test.each([
    ['throttling', -32000, 'Your app has exceeded its compute units per second capacity.'],
    ['a node that is behind', -32602, 'block range extends beyond current head block'],
    ['an error of another kind', -32603, 'internal error'],
  ])('%s', async (_, code, message) => {
    node.answer('eth_getLogs', () => {
      throw new RpcFault(code, message)
    })
    await expect(source.range(height(1), height(BLOCKS))).rejects.toMatchObject({ code: 'rpc_unavailable' })
    expect(queries()).toHaveLength(1)
  })
})
