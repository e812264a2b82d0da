/*
 * Goal: of an event with a topic filter only the logs that fit are indexed, and the node is asked for no more than all
 * filters together allow.
 * Method: a simulated node over HTTP with logs that fit and logs that do not; the queries are read from it.
 */
import type { EvmContractOptions, EvmEventOptions } from '@lockstep/config'
import { type ChainSource, type Hex, height } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { type AbiEvent, pad, parseAbiItem, toHex } from 'viem'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  addressOf,
  evmChainOptions,
  type RpcObject,
  SimulatedEvmNode,
  TRANSFER_EVENT,
  TRANSFER_TOPIC,
  transferLog,
} from '../../testkit/src/evm/index.js'
import { createEvmSource } from './index.js'

const TOKEN = addressOf(0x70)
const [A, B, C] = [addressOf(0xa), addressOf(0xb), addressOf(0xc)]
const topic = (address: Hex): Hex => pad(address)
const transfer = (from: Hex, to: Hex, value: number) =>
  transferLog({ token: TOKEN, from, to, value: BigInt(value) })
const where = (...ways: NonNullable<EvmEventOptions['where']>): EvmEventOptions => ({
  ...TRANSFER_EVENT,
  where: ways,
})

let node: SimulatedEvmNode
const sources: ChainSource[] = []

beforeEach(async () => {
  node = new SimulatedEvmNode({ chainId: 1 })
  await node.start()
  node.extend([
    { logs: [transfer(A, B, 1), transfer(B, A, 2)] },
    { logs: [transfer(A, C, 3), transfer(C, C, 4)] },
  ])
})
afterEach(async () => {
  for (const source of sources.splice(0)) await source.close()
  await node.stop()
})

function sourceOf(...contracts: EvmContractOptions[]): ChainSource {
  const source = createEvmSource(evmChainOptions({ rpc: [node.url], contracts }), { logger: silentLogger() })
  sources.push(source)
  return source
}

async function valuesOf(...contracts: EvmContractOptions[]): Promise<unknown[]> {
  const source = sourceOf(...contracts)
  const { blocks } = await source.range(height(1), height(2))
  for (const block of blocks) expect(await source.block(block.ref.height)).toEqual(block)
  return blocks.flatMap(({ events }) => events.map(({ contract, args }) => `${contract} ${args?.value}`))
}

const token = (contract: string, ...events: EvmEventOptions[]): EvmContractOptions => ({
  contract,
  addresses: [TOKEN],
  events,
})

function firstQuery(): RpcObject {
  const params = node.calls.find(({ method }) => method === 'eth_getLogs')?.params
  return (params as RpcObject[] | undefined)?.[0] ?? {}
}

test.each<[string, EvmEventOptions, number[], unknown]>([
  ['by one argument', where([[topic(A)], null]), [1, 3], [[TRANSFER_TOPIC], [topic(A)]]],
  [
    'by the other',
    where([null, [topic(A), topic(B)]]),
    [1, 2],
    [[TRANSFER_TOPIC], null, [topic(A), topic(B)]],
  ],
  ['by both', where([[topic(A)], [topic(C)]]), [3], [[TRANSFER_TOPIC], [topic(A)], [topic(C)]]],
  ['in one of two ways', where([[topic(A)], null], [null, [topic(A)]]), [1, 2, 3], [[TRANSFER_TOPIC]]],
])('logs %s', async (_, event, values, topics) => {
  expect(await valuesOf(token('t', event))).toEqual(values.map((value) => `t ${value}`))
  expect(firstQuery()).toMatchObject({ address: [TOKEN], topics })
})

test('a log that the first filter does not take goes to the next', async () => {
  const rest = token('rest', TRANSFER_EVENT)
  expect(await valuesOf(token('mine', where([[topic(A)], null])), rest)).toEqual([
    'mine 1',
    'rest 2',
    'mine 3',
    'rest 4',
  ])
  expect(firstQuery().topics).toEqual([[TRANSFER_TOPIC]]) // one of them takes any
})

test('filters of several events are asked for together, and told apart here', async () => {
  const one = token('one', where([[topic(A)], [topic(B)]]))
  const two = token('two', where([[topic(C)], [topic(C)]]))
  expect(await valuesOf(one, two)).toEqual(['one 1', 'two 4'])
  expect(firstQuery().topics).toEqual([[TRANSFER_TOPIC], [topic(A), topic(C)], [topic(B), topic(C)]])
})

test('an anonymous event is filtered by its first topic', async () => {
  const note = parseAbiItem('event Note(uint256 indexed kind, uint256 value)') as unknown as AbiEvent
  const logs = [1, 2].map((kind) => ({
    address: TOKEN,
    topics: [toHex(kind, { size: 32 })],
    data: toHex(kind, { size: 32 }),
  }))
  node.fork(1, [{ logs }])
  const event: EvmEventOptions = { ...note, anonymous: true, where: [[[toHex(2, { size: 32 })]]] }
  expect(await valuesOf(token('notes', event))).toEqual(['notes 2'])
  expect(firstQuery().topics).toEqual([[toHex(2, { size: 32 })]])
})

test('a log without the topic that is filtered by does not fit', async () => {
  node.fork(1, [{ logs: [{ ...transfer(A, B, 5), topics: [TRANSFER_TOPIC] }] }])
  expect(await valuesOf(token('t', where([[topic(A)], null])))).toEqual(['t 1'])
})

test('more values than a node takes are filtered here alone', async () => {
  const many = Array.from({ length: 1_001 }, (_, at) => topic(addressOf(0x1_0000 + at)))
  expect(await valuesOf(token('t', where([[topic(A), ...many], null])))).toEqual(['t 1', 't 3'])
  expect(firstQuery().topics).toEqual([[TRANSFER_TOPIC]])
})

test('a bloom filter without any of the values needs no receipts', async () => {
  node.answer('eth_getLogs', () => [])
  const source = sourceOf(token('t', where([[topic(addressOf(0xdead))], null])))
  await source.block(height(1))
  expect(node.countOf('eth_getBlockReceipts')).toBe(0)
})

test('what is looked for at any address does not widen what is looked for at one', async () => {
  const any: EvmContractOptions = {
    contract: 'any',
    addresses: null,
    events: [parseAbiItem('event Other(uint256 n)') as unknown as AbiEvent],
  }
  expect(await valuesOf(token('t', TRANSFER_EVENT), any)).toHaveLength(4)
  const queries = node.calls.filter(({ method }) => method === 'eth_getLogs').slice(0, 2)
  expect(queries.map(({ params }) => (params as RpcObject[])[0]?.address)).toEqual([[TOKEN], undefined])
})
