/*
 * Goal: an answer without logs is not believed where the block's bloom filter says that it may be false: receipts
 * or another endpoint tell, and what they confirm is accepted.
 * Method: two simulated nodes over HTTP that serve one chain, the first of which leaves logs out.
 */
import { Writable } from 'node:stream'
import { type ChainSource, height } from '@lockstep/domain'
import { createLogger } from '@lockstep/telemetry'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { addressOf, evmChainOptions, SimulatedEvmNode, transferLog } from '../../testkit/src/evm/index.js'
import { RpcFault } from '../../testkit/src/rpc/index.js'
import { createEvmSource } from './index.js'

let liar: SimulatedEvmNode
let other: SimulatedEvmNode
let source: ChainSource
let messages: string[]

beforeEach(async () => {
  liar = new SimulatedEvmNode({ chainId: 1 })
  other = new SimulatedEvmNode(liar.chain)
  await Promise.all([liar.start(), other.start()])
  const log = transferLog({ token: addressOf(9), from: addressOf(1), to: addressOf(2), value: 5n })
  liar.extend([{ logs: [log] }, {}, { logs: [log] }])
  liar.answer('eth_getLogs', () => [])
  messages = []
  source = sourceOf({ rpc: [liar.url, other.url] })
})
afterEach(async () => {
  await source.close()
  await Promise.all([liar.stop(), other.stop()])
})

function sourceOf(options: Parameters<typeof evmChainOptions>[0]): ChainSource {
  const destination = new Writable({
    decodeStrings: false,
    write: (line, _encoding, done) => {
      messages.push(JSON.parse(String(line)).msg)
      done()
    },
  })
  const logger = createLogger({ level: 'warn', format: 'json', destination })
  return createEvmSource(evmChainOptions(options), { logger })
}

const withoutReceipts = (node: SimulatedEvmNode): void =>
  node.answer('eth_getBlockReceipts', () => {
    throw new RpcFault(-32601, 'the method eth_getBlockReceipts does not exist/is not available')
  })

/** What a look at all blocks finds, one by one and as a range. */
async function found(): Promise<number[][]> {
  const range = await source.range(height(1), height(3))
  const blocks = await Promise.all([1, 2, 3].map((at) => source.block(height(at))))
  const heights = (list: readonly ({ ref: { height: number }; events: readonly unknown[] } | null)[]) =>
    list.flatMap((block) => (block?.events ?? []).map(() => block?.ref.height ?? -1))
  return [heights(range.blocks), heights(blocks)]
}

const BOTH = [
  [1, 3],
  [1, 3],
]

test('the receipts of the same node tell', async () => {
  expect(await found()).toEqual(BOTH)
  expect(other.calls.filter(({ method }) => method !== 'eth_chainId')).toEqual([])
})

test('where the node has no receipts, another endpoint tells, and its answer is used', async () => {
  withoutReceipts(liar)
  expect(await found()).toEqual(BOTH)
  expect(messages).toContain('endpoint left out logs')
})

test('an answer that another endpoint confirms is accepted without a word', async () => {
  withoutReceipts(liar)
  other.answer('eth_getLogs', () => [])
  expect(await found()).toEqual([[], []])
  expect(messages).toEqual([])
  expect(other.countOf('eth_getLogs')).toBeGreaterThan(0)
})

test.each<[string, () => void]>([
  ['does not answer', () => other.failNext(1_000, { kind: 'status', status: 503 })],
  ['does not know the block', () => other.lowerHead(3)],
])('where the other endpoint %s, it is accepted with one warning', async (_, disturb) => {
  withoutReceipts(liar)
  disturb()
  expect(await found()).toEqual([[], []])
  expect(messages.filter((message) => message === 'empty answer was accepted unconfirmed')).toHaveLength(1)
})

test('of a range every block is held against its bloom filter where all headers are read', async () => {
  await source.close()
  source = sourceOf({ rpc: [liar.url], blocks: 'all' })
  liar.extend(3)
  liar.extend([
    { logs: [transferLog({ token: addressOf(9), from: addressOf(1), to: addressOf(2), value: 6n })] },
    {},
  ])
  const { blocks } = await source.range(height(1), height(8))
  expect(blocks.filter(({ events }) => events.length > 0).map(({ ref }) => ref.height)).toEqual([1, 3, 7])
})

test('an empty answer that the bloom filter agrees with costs nothing', async () => {
  liar.fork(3)
  expect(await found()).toEqual([[], []])
  expect(liar.countOf('eth_getBlockReceipts') + other.httpRequests).toBe(0)
})
