/*
 * Goal: the contracts that a factory creates are indexed from their own block on, whole, however many they are, over
 * generations, and no log of before; and the node is asked no more for them than it must be.
 * Method: a simulated node over HTTP that serves factories and children; what was asked is read from the node.
 */
import type { EvmChainOptions, EvmContractOptions } from '@lockstep/config'
import { filtersOf } from '@lockstep/config'
import { type ChainSource, type Hex, height, KnownChildren, type SourceBlock } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { type AbiEvent, pad, parseAbiItem, toEventSelector, toHex } from 'viem'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  addressOf,
  evmChainOptions,
  type LogWish,
  type RpcObject,
  SimulatedEvmNode,
} from '../../testkit/src/evm/index.js'
import { createEvmSource } from './index.js'

const event = (text: string): AbiEvent => parseAbiItem(text as 'event X()') as unknown as AbiEvent

const CREATED = event('event Created(address child, uint256 number)')
const SPAWNED = event('event Spawned(address indexed child)')
const SWAP = event('event Swap(uint256 n)')
const FACTORY = addressOf(0xfa)

const factory: EvmContractOptions = { contract: 'factory', addresses: [FACTORY], events: [CREATED] }
const pool: EvmContractOptions = {
  contract: 'pool',
  addresses: null,
  factory: { of: factory, event: 'Created(address,uint256)', argument: 'child' },
  events: [SWAP, SPAWNED],
}
const leaf: EvmContractOptions = {
  contract: 'leaf',
  addresses: null,
  factory: { of: pool, event: 'Spawned(address)', argument: 'child' },
  events: [SWAP],
}

const word = (value: number | bigint | Hex): string => pad(toHex(BigInt(value)), { size: 32 }).slice(2)
const created = (child: Hex, by: Hex = FACTORY): LogWish => ({
  address: by,
  topics: [toEventSelector(CREATED)],
  data: `0x${word(child)}${word(7)}`,
})
const spawned = (by: Hex, child: Hex): LogWish => ({
  address: by,
  topics: [toEventSelector(SPAWNED), pad(child)],
})
const swap = (by: Hex, n: number): LogWish => ({
  address: by,
  topics: [toEventSelector(SWAP)],
  data: `0x${word(n)}`,
})

const [A, B, C] = [addressOf(0xa), addressOf(0xb), addressOf(0xc)]
const OPTIONS: Partial<EvmChainOptions> = { contracts: [factory, pool, leaf] }

let node: SimulatedEvmNode
let source: ChainSource

beforeEach(async () => {
  node = new SimulatedEvmNode({ chainId: 1 })
  await node.start()
  source = createEvmSource(evmChainOptions({ rpc: [node.url], ...OPTIONS }), { logger: silentLogger() })
})
afterEach(async () => {
  await source.close()
  await node.stop()
})

const swapsIn = (blocks: readonly (SourceBlock | null)[]): string[] =>
  blocks.flatMap((block) =>
    (block?.events ?? [])
      .filter(({ name }) => name === 'Swap')
      .map(({ contract, args }) => `${block?.ref.height} ${contract} ${args?.n}`),
  )

const queries = (): RpcObject[] =>
  node.calls
    .filter(({ method }) => method === 'eth_getLogs')
    .map(({ params }) => (params as RpcObject[])[0] ?? {})

/** Two blocks before the child, its own with a log below the event that tells of it, and one after. */
const oneChild = () =>
  node.extend([
    { logs: [swap(A, 1)] },
    {},
    { logs: [swap(A, 2), swap(B, 3), created(A), swap(A, 4)] },
    { logs: [swap(A, 5), swap(B, 6)] },
  ])

describe('a child', () => {
  test('is indexed from its own block on, whole, and not before', async () => {
    oneChild()
    const { blocks } = await source.range(height(1), height(4))
    expect(swapsIn(blocks)).toEqual(['3 pool 2', '3 pool 4', '4 pool 5'])
    expect(blocks.map(({ ref, children }) => [ref.height, children])).toEqual([
      [3, [{ contract: 'pool', address: A, txIndex: 2, eventIndex: 2 }]],
      [4, []],
    ])
  })

  test('of the block asked for alone is known in it', async () => {
    oneChild()
    const block = await source.block(height(3))
    expect(swapsIn([block])).toEqual(['3 pool 2', '3 pool 4'])
    expect(block?.children).toHaveLength(1)
    expect(swapsIn([await source.block(height(4))])).toEqual([]) // nobody said that it is known
  })

  test('that is known is indexed from where it is known to begin', async () => {
    oneChild()
    const children = new KnownChildren([{ contract: 'pool', address: A, height: height(3) }])
    const asking = source.asking({ children, only: null })
    expect(swapsIn([await asking.block(height(4))])).toEqual(['4 pool 5'])
    expect(swapsIn([await asking.block(height(1))])).toEqual([])
    expect(swapsIn((await asking.range(height(4), height(4))).blocks)).toEqual(['4 pool 5'])
  })

  test('of an address that is no factory is none, nor one of an event that does not fit', async () => {
    const unfit = { ...created(B), data: `0x${'ff'.repeat(64)}` as Hex }
    node.extend([{ logs: [created(A, addressOf(0xbad)), unfit, swap(A, 1), swap(B, 2)] }])
    const block = await source.block(height(1))
    expect(block?.children).toEqual([])
    expect(block?.events.map(({ name, undecoded }) => [name, undecoded === null])).toEqual([
      ['Created', false],
    ])
  })

  test('that two events of one block tell of is told of once', async () => {
    node.extend([{ logs: [created(A), created(A)] }])
    expect((await source.block(height(1)))?.children).toEqual([
      { contract: 'pool', address: A, txIndex: 0, eventIndex: 0 },
    ])
  })

  test('is asked for only from its block on, and only at its address', async () => {
    oneChild()
    await source.range(height(1), height(4))
    expect(queries().map(({ address, fromBlock, toBlock }) => [address, fromBlock, toBlock])).toEqual([
      [[FACTORY], '0x1', '0x4'],
      [[A], '0x3', '0x4'],
    ])
  })

  test('whose log the node leaves out is found by the bloom filter', async () => {
    oneChild()
    const children = new KnownChildren([{ contract: 'pool', address: A, height: height(3) }])
    node.answer('eth_getLogs', () => [])
    const asking = source.asking({ children, only: null })
    expect(swapsIn([await asking.block(height(4))])).toEqual(['4 pool 5'])
    expect(swapsIn((await asking.range(height(4), height(4))).blocks)).toEqual(['4 pool 5'])
  })
})

describe('generations', () => {
  const generations = () =>
    node.extend([
      { logs: [swap(B, 1), swap(A, 2), spawned(A, B), created(A)] },
      { logs: [swap(B, 3), created(C)] },
      { logs: [spawned(C, addressOf(0xd)), swap(addressOf(0xd), 4), swap(B, 5)] },
    ])

  test('are followed within one block and over a range', async () => {
    generations()
    const { blocks } = await source.range(height(1), height(3))
    expect(swapsIn(blocks)).toEqual(['1 leaf 1', '1 pool 2', '2 leaf 3', '3 leaf 4', '3 leaf 5'])
    const alone = await source.block(height(1))
    expect(alone).toEqual(blocks[0])
    expect(alone?.children.map(({ contract, address }) => [contract, address])).toEqual([
      ['leaf', B],
      ['pool', A],
    ])
  })
})

describe('only some filters', () => {
  const filterOf = (contract: string, event: string): string => {
    const chain = evmChainOptions({ rpc: [node.url], ...OPTIONS })
    return filtersOf(chain).find((each) => each.contract === contract && each.event === event)?.filter ?? ''
  }

  test('of children are found by the children that are known, without asking the factory', async () => {
    oneChild()
    const children = new KnownChildren([{ contract: 'pool', address: A, height: height(3) }])
    const only = new Set([filterOf('pool', 'Swap(uint256)')])
    const { blocks } = await source.asking({ children, only }).range(height(1), height(4))
    expect(swapsIn(blocks)).toEqual(['3 pool 2', '3 pool 4', '4 pool 5'])
    expect(blocks.flatMap((block) => [...block.children])).toEqual([])
    expect(queries().flatMap(({ address }) => address)).not.toContain(FACTORY)
  })

  test('of a factory find its children, whose events are left out', async () => {
    oneChild()
    const only = new Set([filterOf('factory', 'Created(address,uint256)')])
    const asking = source.asking({ children: new KnownChildren(), only })
    const { blocks } = await asking.range(height(1), height(4))
    expect(blocks.flatMap(({ events }) => events.map(({ name }) => name))).toEqual(['Created'])
    expect(blocks[0]?.children).toHaveLength(1)
  })

  test('leave to other filters what is theirs', async () => {
    const chain = evmChainOptions({
      rpc: [node.url],
      contracts: [
        { contract: 'named', addresses: [A], events: [SWAP] },
        { contract: 'any', addresses: null, events: [SWAP] },
      ],
    })
    node.extend([{ logs: [swap(A, 1), swap(B, 2)] }])
    const [, any] = filtersOf(chain)
    const whole = createEvmSource(chain, { logger: silentLogger() })
    const some = whole.asking({ children: new KnownChildren(), only: new Set([any?.filter ?? '']) })
    expect(swapsIn([await some.block(height(1))])).toEqual(['1 any 2'])
    await whole.close()
  })

  test('share the endpoints, which close with the original', async () => {
    oneChild()
    const asking = source.asking({ children: new KnownChildren(), only: null })
    await source.close()
    await expect(asking.block(height(1))).rejects.toThrow(/closed/)
  })
})

describe('thousands of children', () => {
  const MANY = 2_500
  const child = (at: number): Hex => addressOf(0x10_0000 + at)
  const known = () =>
    new KnownChildren(
      Array.from({ length: MANY }, (_, at) => ({ contract: 'pool', address: child(at), height: height(0) })),
    )

  test('are asked for by topics alone, and strangers are left out', async () => {
    node.extend([
      { logs: [swap(child(0), 1), swap(C, 2), swap(child(MANY - 1), 3)] },
      { logs: [created(B), swap(B, 4)] },
    ])
    const { blocks } = await source.asking({ children: known(), only: null }).range(height(1), height(2))
    expect(swapsIn(blocks)).toEqual(['1 pool 1', '1 pool 3', '2 pool 4'])
    expect(queries()).toHaveLength(2) // what is listed by address; the topics: the new child is among them
    expect(queries().map(({ address }) => address)).toEqual([[FACTORY], undefined])
  })

  test('that one block creates are all indexed', async () => {
    const logs = Array.from({ length: MANY }, (_, at) => created(child(at)))
    node.extend([{ logs: [swap(child(MANY - 1), 1), ...logs] }, { logs: [swap(child(0), 2), swap(C, 3)] }])
    const { blocks } = await source.range(height(1), height(2))
    expect(swapsIn(blocks)).toEqual(['1 pool 1', '2 pool 2'])
    expect(blocks[0]?.children).toHaveLength(MANY)
    for (const { address } of queries()) expect([address ?? []].flat().length).toBeLessThanOrEqual(1_000)
  })
})
