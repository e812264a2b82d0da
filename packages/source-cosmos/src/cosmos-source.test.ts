// One simulated node over real HTTP: what the source says of an honest chain, and of a node that lags or lies.
import type { CosmosChainOptions } from '@lockstep/config'
import {
  type BlockRef,
  type ChainKey,
  type ChainSource,
  describeError,
  formatTime,
  type Height,
  HeightPrunedError,
  MalformedAnswerError,
  RpcUnavailableError,
  TX_INDEX_BEGIN_BLOCK,
  TX_INDEX_END_BLOCK,
  WrongChainError,
} from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  type CometBlockScript,
  SimulatedCometChain,
  SimulatedCometNode,
} from '../../testkit/src/comet/index.js'
import { createCosmosSource } from './cosmos-source.js'

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
  const options: CosmosChainOptions = {
    kind: 'cosmos',
    chain: 'sim' as ChainKey,
    chainId: 'sim-1',
    rpc: [node.url],
    startHeight: at(1),
    endHeight: null,
    finality: { by: 'depth', depth: 0 },
    rollbackDepthMax: 100,
    pollMs: 100,
    blocks: 'events',
    filterDigest: '',
    contracts: [{ contract: 'bank', address: null, events: [{ type: 'transfer', action: null }] }],
    ...changes,
  }
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
    const lateSource = open({ rpc: [lateNode.url] })
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

  it('above the head is asked for again later, never shortened', async () => {
    await expect(source.range(at(3), at(5))).rejects.toThrow(RpcUnavailableError)
    await expect(source.range(at(5), at(9))).rejects.toThrow(/does not have block 9 yet/)
  })

  it('whose blocks are not linked is refused', async () => {
    node.override('blockchain', (_, honest) => {
      const page = honest() as { block_metas: { block_id: { hash: string } }[] }
      const third = page.block_metas[1]
      if (third !== undefined) third.block_id.hash = 'AB'.repeat(32)
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
        /no longer has block \d \(its lowest is 3\)/,
      )
    }
    expect((await source.range(at(3), at(4))).first).toEqual(chain.ref(3))
  })
})

describe('a node that lags or lies', () => {
  it('is waited for where its results come a moment after the block', async () => {
    node.lagResults(2)
    expect(amounts((await source.block(at(4)))?.events)).toEqual(['end of 4'])
    expect(node.server.countOf('block_results')).toBe(3)
  })

  it('is given up where its results do not come', async () => {
    node.lagResults(1000)
    await expect(source.block(at(4))).rejects.toThrow(
      /has block 4, but not its results: .*could not find results for height #4/,
    )
  })

  it('is given up at once where it keeps no results', async () => {
    node.refuseNext('block_results', 1, 'node is not persisting finalize block responses')
    await expect(source.block(at(4))).rejects.toThrow(RpcUnavailableError)
    expect(node.server.countOf('block_results')).toBe(1)
  })

  it('has pruned: header, block and results say so', async () => {
    node.pruneBelow(3)
    await expect(source.header(at(2))).rejects.toMatchObject({
      code: 'height_pruned',
      facts: { height: 2, lowest: 3 },
    })
    await expect(source.block(at(2))).rejects.toThrow(HeightPrunedError)
    node.pruneBelow(0)
    node.refuseNext('block_results', 1, 'height 2 is not available, lowest height is 4')
    await expect(source.block(at(2))).rejects.toThrow(HeightPrunedError)
  })

  it('that changes branch while a block is read gives no mixture', async () => {
    node.override('block_results', (_, honest) => {
      const results = honest()
      chain.fork(3, BLOCKS.slice(1))
      return results
    })
    await expect(source.block(at(4))).rejects.toThrow(/block 4 changed its hash while its events were read/)
    await expect(source.block(at(2))).rejects.toThrow(/but its header was/)
    await expect(source.range(at(3), at(4))).rejects.toThrow(/changed its hash/)
  })

  it('after a fork gives the new branch', async () => {
    const before = await source.header(at(3))
    chain.fork(2, [{ time: '2024-01-01T00:00:09Z' }, { time: '2024-01-01T00:00:10Z' }])
    const after = await source.header(at(3))
    expect(after).toEqual(chain.ref(3))
    expect(after?.hash).not.toBe(before?.hash)
    expect(after?.parentHash).toBe(chain.ref(2).hash)
  })

  it.each<[string, string, unknown]>([
    ['counts too few results', 'block_results', { height: '2', txs_results: [] }],
    ['gives results of another height', 'block_results', { height: '3', txs_results: [] }],
    ['gives a result that is no object', 'block_results', null],
    ['gives events that are no list', 'block_results', { height: '2', finalize_block_events: {} }],
    [
      'gives an empty hash',
      'blockchain',
      { last_height: '4', block_metas: [{ block_id: { hash: '' }, header: {} }] },
    ],
    ['gives no header of a height below its head', 'blockchain', { last_height: '4', block_metas: null }],
    [
      'gives null for a block',
      'block',
      { block_id: { hash: '', parts: { total: 0, hash: '' } }, block: null },
    ],
    ['gives null for everything', 'blockchain', null],
  ])('is refused where it %s', async (_, method, answer) => {
    node.override(method, () => answer)
    await expect(source.block(at(2))).rejects.toThrow(MalformedAnswerError)
  })

  it('is refused where its block is another than its header', async () => {
    const other = chain.at(3)
    node.override('block', () => other?.block)
    await expect(source.block(at(2))).rejects.toThrow(/but its header was/)
  })

  it('is refused where its head is not the header that it gives', async () => {
    node.override('status', (_, honest) => {
      const status = honest() as { sync_info: { latest_block_hash: string } }
      status.sync_info.latest_block_hash = 'CD'.repeat(32)
      return status
    })
    await expect(source.tip()).rejects.toThrow(MalformedAnswerError)
  })

  it('without any block yet is not there yet', async () => {
    const empty = await SimulatedCometNode.start(
      new SimulatedCometChain({ chainId: 'sim-1', version: '0.38.17' }),
    )
    const early = open({ rpc: [empty.url] })
    await expect(early.tip()).rejects.toThrow(/has no block yet/)
    expect(await early.header(at(1))).toBeNull()
    await empty.stop()
  })

  it.each(['0.35.9', '2.0.0', ''])('of version "%s" is not read at all', async (version) => {
    await source.close()
    await node.stop()
    await serve(version)
    await expect(source.header(at(1))).rejects.toThrow(`its version is "${version}"`)
  })

  it('whose headers are of another network is refused', async () => {
    const other = new SimulatedCometChain({ chainId: 'other-1', version: '0.38.17' })
    other.extend(BLOCKS)
    const liar = await SimulatedCometNode.start(other)
    liar.reportNetwork('sim-1')
    await expect(open({ rpc: [liar.url] }).header(at(2))).rejects.toThrow(WrongChainError)
    await liar.stop()
  })
})

describe('a call', () => {
  const calls: readonly [string, (target: ChainSource, signal?: AbortSignal) => Promise<unknown>][] = [
    ['check', (target, signal) => target.check(signal)],
    ['tip', (target, signal) => target.tip(signal)],
    ['header', (target, signal) => target.header(at(2), signal)],
    ['block', (target, signal) => target.block(at(2), signal)],
    ['range', (target, signal) => target.range(at(1), at(4), signal)],
    ['blockOfTransaction', (target, signal) => target.blockOfTransaction(chain.txHash(2, 0), signal)],
  ]

  it.each(calls)('of %s ends with the reason of its aborted signal', async (_, call) => {
    node.delay(60_000)
    const controller = new AbortController()
    const reason = new Error('enough')
    const answer = call(source, controller.signal)
    setTimeout(() => controller.abort(reason), 50)
    await expect(answer).rejects.toBe(reason)
    await expect(call(source, controller.signal)).rejects.toBe(reason)
  })

  it.each(calls)('of %s ends when the source is closed, and none is begun after', async (_, call) => {
    node.delay(60_000)
    const answer = call(source)
    setTimeout(() => void source.close(), 50)
    await expect(answer).rejects.toThrow(/the source was closed/)
    await expect(call(source)).rejects.toThrow(RpcUnavailableError)
  })

  it('is aborted inside a call through cosmjs and inside a pause too', async () => {
    await source.header(at(1))
    for (const prepare of [
      () => node.override('block', () => new Promise(() => {})),
      () => node.lagResults(1000),
    ]) {
      const undo = prepare()
      const signal = AbortSignal.timeout(120)
      await expect(source.block(at(2), signal)).rejects.toMatchObject({ name: 'TimeoutError' })
      undo?.()
    }
  })

  it('ends after the time-out of a request', async () => {
    node.failNext(1, { kind: 'hang' })
    await expect(open({}, 100).tip()).rejects.toThrow(/no answer within 100 ms/)
  })

  it.each([
    ['a dropped connection', { kind: 'drop' }, /does not answer: (.+)/],
    ['a status of 502', { kind: 'status', status: 502, body: '<html>' }, /HTTP status 502/],
    ['a status of 429', { kind: 'status', status: 429 }, /HTTP status 429/],
    ['a page that is no JSON', { kind: 'status', status: 200, body: '<html>' }, /it is no JSON object/],
  ] as const)('fails on %s, and the next one works', async (_, fault, words) => {
    node.failNext(1, fault)
    await expect(source.tip()).rejects.toThrow(words)
    expect((await source.tip()).head.height).toBe(4)
  })

  it('reads a JSON-RPC error out of an answer with status 500', async () => {
    await source.check()
    const error = {
      code: -32603,
      message: 'Internal error',
      data: 'height 2 is not available, lowest height is 9',
    }
    node.failNext(1, { kind: 'status', status: 500, body: JSON.stringify({ jsonrpc: '2.0', id: -1, error }) })
    await expect(source.header(at(2))).rejects.toThrow(HeightPrunedError)
  })

  it('that fails says no secret of the address', async () => {
    const { host, port } = new URL(node.url)
    const secretive = open({ rpc: [`http://user:pass@${host}/v1/secretkey?token=secrettoken`] })
    await node.stop()
    const error = await secretive.tip().catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(RpcUnavailableError)
    expect(describeError(error)).toContain(host)
    expect(JSON.stringify([describeError(error), error])).not.toMatch(/secret|pass|user/)
    await node.server.start(Number(port))
  })
})

it('describes the whole chain the same way through every method', async () => {
  const refs: (BlockRef | null)[] = []
  for (let height = 1; height <= 4; height += 1) refs.push(await source.header(at(height)))
  const { blocks } = await open({ blocks: 'all' }).range(at(1), at(4))
  expect(refs).toEqual(blocks.map(({ ref }) => ref))
})
