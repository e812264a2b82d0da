// One simulated node over real HTTP: what the source says of an honest chain, and of a node that lags or lies.
import type { CosmosChainOptions } from '@lockstep/config'
import {
  type BlockRef,
  type ChainSource,
  formatTime,
  type Height,
  HeightPrunedError,
  MalformedAnswerError,
  RpcUnavailableError,
  TX_INDEX_BEGIN_BLOCK,
  TX_INDEX_END_BLOCK,
} from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  type CometBlockScript,
  cosmosChainOptions,
  SimulatedCometChain,
  SimulatedCometNode,
} from '../../testkit/src/comet/index.js'
import { endpointOptions } from '../../testkit/src/rpc/index.js'
import { createCosmosSource } from './cosmos-source.js'
import { headerHash } from './header-hash.js'

const at = (height: number) => height as Height

const transfer = (amount: string) => ({ type: 'transfer', attributes: [['amount', amount] as const] })

const BLOCKS: readonly CometBlockScript[] = [
  { time: '2024-01-01T00:00:00.000000000Z' },
  {
    time: '2024-01-01T00:00:05.123456789Z',
    beginEvents: [transfer('begin')],
    txs: [
      { events: [transfer('a0'), transfer('a1')] },
      { code: 5, events: [transfer('failed')] },
      { events: [transfer('c0')] },
    ],
    endEvents: [transfer('end')],
  },
  { time: '2024-01-01T00:00:05.123456789Z', txs: [{}] },
  { time: '2024-01-01T00:00:20Z', endEvents: [transfer('end of 4')] },
]

let chain: SimulatedCometChain
let node: SimulatedCometNode
let source: ChainSource

async function serve(version: string, blocks: readonly CometBlockScript[] = BLOCKS) {
  chain = new SimulatedCometChain({ chainId: 'sim-1', version })
  chain.extend(blocks)
  node = await SimulatedCometNode.start(chain)
  source = open()
}

function open(changes: Partial<CosmosChainOptions> = {}, requestTimeoutMs = 5000): ChainSource {
  const options = cosmosChainOptions({
    rpc: [node.url],
    blocks: 'events',
    contracts: [
      {
        contract: 'bank',
        address: null,
        events: [{ type: 'transfer', action: null }],
        failedTransactions: false,
      },
    ],
    ...changes,
  })
  return createCosmosSource(options, { logger: silentLogger(), requestTimeoutMs })
}

beforeEach(() => serve('0.38.17'))
afterEach(async () => {
  await source.close()
  await node.stop()
})

const amounts = (events: readonly { readonly args: unknown }[] | undefined) =>
  events?.map(({ args }) => (args as { amount: string }).amount)

describe('an honest node', () => {
  it('gives its head with its parent, and all of it is final at depth 0', async () => {
    expect(await source.tip()).toEqual({ head: chain.ref(4), finalized: 4 })
  })

  it('is final as deep as configured, and nothing is while the chain is shorter', async () => {
    expect((await open({ finality: { by: 'depth', depth: 3 } }).tip()).finalized).toBe(1)
    expect((await open({ finality: { by: 'depth', depth: 5 } }).tip()).finalized).toBeNull()
  })

  it('never takes finality back where the head falls', async () => {
    await source.tip()
    node.lowerHead(2)
    expect(await source.tip()).toEqual({ head: chain.ref(2), finalized: 4 })
  })

  it('gives headers: the first without a parent, times floored to microseconds', async () => {
    expect(await source.header(at(1))).toEqual({ ...chain.ref(1), parentHash: null })
    const second = await source.header(at(2))
    expect(second).toEqual(chain.ref(2))
    expect(second && formatTime(second.time)).toBe('2024-01-01T00:00:05.123456Z')
    expect(second?.parentHash).toBe(chain.ref(1).hash)
  })

  it('has no block above its head, and no block 0', async () => {
    for (const height of [5, 1000, 0]) {
      expect(await source.header(at(height))).toBeNull()
      expect(await source.block(at(height))).toBeNull()
    }
  })

  it.each(['0.34.24', '0.37.4', '0.38.17', '1.0.1'])(
    'gives the same block through version %s',
    async (version) => {
      await source.close()
      await node.stop()
      await serve(version)
      const block = await source.block(at(2))
      expect(block?.ref).toEqual(chain.ref(2))
      expect(amounts(block?.events)).toEqual(['begin', 'a0', 'a1', 'c0', 'end'])
      const finalizes = version.startsWith('0.38.') || version.startsWith('1.')
      expect(block?.events.map(({ txIndex, eventIndex }) => [txIndex, eventIndex])).toEqual([
        [TX_INDEX_BEGIN_BLOCK, 0],
        [0, 0],
        [0, 1],
        [2, 0],
        [TX_INDEX_END_BLOCK, finalizes ? 1 : 0], // its place in the one list that both phases share
      ])
      expect(block?.events.map(({ txHash }) => txHash)).toEqual([
        '0x',
        chain.txHash(2, 0),
        chain.txHash(2, 0),
        chain.txHash(2, 2),
        '0x',
      ])
    },
  )

  it('begins at the height of its genesis', async () => {
    const late = new SimulatedCometChain({ chainId: 'sim-1', version: '0.38.17', initialHeight: 500 })
    late.extend(BLOCKS)
    const lateNode = await SimulatedCometNode.start(late)
    const lateSource = open({ rpc: endpointOptions([lateNode.url]) })
    expect(await lateSource.header(at(500))).toEqual({ ...late.ref(500), parentHash: null })
    await expect(lateSource.header(at(499))).rejects.toThrow(HeightPrunedError)
    await lateSource.close()
    await lateNode.stop()
  })

  it('finds the block of a transaction, and null for one that it does not know', async () => {
    expect(await source.blockOfTransaction(chain.txHash(2, 2))).toEqual(chain.ref(2))
    expect(await source.blockOfTransaction(`0x${'0'.repeat(64)}`)).toBeNull()
  })

  it('asks for the block itself only where a transaction has an event that is wanted', async () => {
    await source.block(at(3))
    await source.block(at(4))
    expect(node.server.countOf('block')).toBe(0)
    await source.block(at(2))
    expect(node.server.countOf('block')).toBe(1)
  })
})

describe('a range', () => {
  it('holds the blocks with events, or all, between its first and its last', async () => {
    const events = await source.range(at(1), at(4))
    expect([events.first, events.last]).toEqual([chain.ref(1), chain.ref(4)])
    expect(events.blocks.map(({ ref }) => ref.height)).toEqual([2, 4])
    const all = await open({ blocks: 'all' }).range(at(1), at(4))
    expect(all.blocks.map(({ ref }) => ref)).toEqual([1, 2, 3, 4].map((height) => chain.ref(height)))
    expect(all.blocks[1]).toEqual(await source.block(at(2)))
  })

  it('goes over many pages of headers', async () => {
    chain.extendEmpty(90, 1_000_000n)
    const range = await open({ blocks: 'all' }).range(at(3), at(94))
    expect(range.blocks.map(({ ref }) => ref.height)).toEqual(
      Array.from({ length: 92 }, (_, index) => index + 3),
    )
  })

  it('whose last pages came after the head rose is asked for again too', async () => {
    chain.extendEmpty(21, 1_000_000n)
    node.override('blockchain', (params, honest) => {
      if (params.minHeight === '1') node.lowerHead(18)
      const page = honest()
      node.lowerHead(null)
      return page
    })
    await expect(source.range(at(1), at(25))).rejects.toThrow(/does not have block 25 yet/)
  })

  it('above the head is asked for again later, never shortened', async () => {
    await expect(source.range(at(3), at(5))).rejects.toThrow(RpcUnavailableError)
    await expect(source.range(at(5), at(9))).rejects.toThrow(/does not have block 9 yet/)
  })

  it('whose blocks are not linked is refused', async () => {
    node.override('blockchain', (_, honest) => {
      const page = honest() as {
        block_metas: { block_id: { hash: string }; header: Record<string, unknown> }[]
      }
      const third = page.block_metas[1]
      if (third === undefined) return page
      third.header.app_hash = 'AB'.repeat(32)
      third.block_id.hash = headerHash(third.header, 'header').slice(2)
      return page
    })
    await expect(source.range(at(1), at(4))).rejects.toThrow(/block 4 names .* as its parent/)
  })

  it('with a header missing in the middle is refused', async () => {
    node.override('blockchain', (_, honest) => {
      const page = honest() as { block_metas: unknown[] }
      return { ...page, block_metas: page.block_metas.map((meta, index) => (index === 1 ? null : meta)) }
    })
    await expect(source.range(at(1), at(4))).rejects.toThrow(MalformedAnswerError)
  })

  it('that reaches below what the node keeps is pruned, also where only its beginning is gone', async () => {
    node.pruneBelow(3)
    for (const [from, to] of [
      [1, 2],
      [2, 4],
    ] as const) {
      await expect(source.range(at(from), at(to))).rejects.toThrow(
        from === 1
          ? /no longer has blocks 1 to 2: its lowest is 3/
          : /no longer has block 2: its lowest is 3/,
      )
    }
    expect((await source.range(at(3), at(4))).first).toEqual(chain.ref(3))
  })
})

it('describes the whole chain the same way through every method', async () => {
  const refs: (BlockRef | null)[] = []
  for (let height = 1; height <= 4; height += 1) refs.push(await source.header(at(height)))
  const { blocks } = await open({ blocks: 'all' }).range(at(1), at(4))
  expect(refs).toEqual(blocks.map(({ ref }) => ref))
})
