// A node that lags, has pruned, changes branch or lies: nothing wrong is taken from it, and what will pass is waited for.
import type { CosmosChainOptions } from '@lockstep/config'
import {
  type ChainSource,
  type Height,
  HeightPrunedError,
  MalformedAnswerError,
  RpcUnavailableError,
  WrongChainError,
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

interface HeaderMeta {
  block_id: { hash: string }
  header: { height: string; time: string; [field: string]: unknown }
  num_txs: string
}

interface HeaderPage {
  readonly block_metas: HeaderMeta[]
}

/** What a header says is changed, and its hash with it: a lie that the header alone does not give away. */
function changed(meta: HeaderMeta, changes: Partial<HeaderMeta['header']>): HeaderMeta {
  const header = { ...meta.header, ...changes }
  return { ...meta, header, block_id: { hash: headerHash(header, 'header').slice(2) } }
}

const above = (meta: HeaderMeta): HeaderMeta =>
  changed(meta, { height: String(Number(meta.header.height) + 4) })

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

describe('a node that lags or lies', () => {
  it('is waited for where its results come a moment after the block', async () => {
    node.lagResults(2)
    expect(amounts((await source.block(at(4)))?.events)).toEqual(['end of 4'])
    expect(node.server.countOf('block_results')).toBe(3)
  })

  it('is given up where its results do not come', async () => {
    node.lagResults(1000)
    await expect(source.block(at(4))).rejects.toThrow(
      /degraded: it has block 4, but not its results: .*could not find results for height #4/,
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

  it.each<[string, string, unknown, RegExp]>([
    [
      'counts too few results',
      'block_results',
      { height: '2', txs_results: [{}] },
      /has 3 transactions, but results of 1/,
    ],
    [
      'gives results of another height',
      'block_results',
      { height: '3', txs_results: [{}, {}, {}] },
      /is of block 3, not of 2/,
    ],
    ['gives a result that is no object', 'block_results', null, /result is null/],
    [
      'gives events that are no list',
      'block_results',
      { height: '2', finalize_block_events: {} },
      /should be a list/,
    ],
    [
      'gives an empty hash',
      'blockchain',
      { last_height: '4', block_metas: [{ block_id: { hash: '' } }] },
      /header is missing/,
    ],
    [
      'gives no header of a height below its head',
      'blockchain',
      { last_height: '4', block_metas: null },
      /no header from 2 on/,
    ],
    [
      'gives null for a block',
      'block',
      { block_id: { hash: '', parts: { total: 0, hash: '' } }, block: null },
      /to block cannot/,
    ],
    ['gives null for its headers', 'blockchain', null, /result is null/],
  ])('is refused where it %s', async (_, method, answer, words) => {
    node.override(method, () => answer)
    await expect(source.block(at(2))).rejects.toThrow(words)
    await expect(source.block(at(2))).rejects.toThrow(MalformedAnswerError)
  })

  it.each<[string, (meta: HeaderMeta) => void, RegExp]>([
    ['an empty hash', (meta) => (meta.block_id.hash = ''), /block_id.hash is "", but should be a hash/],
    ['a time without zone', (meta) => (meta.header.time = '2024-01-01T00:00:05'), /time is .* RFC 3339/],
    ['another height', (meta) => Object.assign(meta, changed(meta, { height: '9' })), /no longer has/],
    [
      'a hash that is not its own',
      (meta) => (meta.header.app_hash = 'AB'),
      /should be the hash of its header/,
    ],
    [
      'another time than its hash',
      (meta) => (meta.header.time = '2024-01-01T00:00:05.123456788Z'),
      /hash of its/,
    ],
    ['a negative count', (meta) => (meta.num_txs = '-1'), /num_txs is "-1"/],
  ])('is refused where a header has %s', async (_, change, words) => {
    node.override('blockchain', (_params, honest) => {
      const page = honest() as { block_metas: HeaderMeta[] }
      for (const meta of page.block_metas) change(meta)
      return page
    })
    await expect(source.header(at(2))).rejects.toThrow(words)
  })

  it.each<[string, (page: HeaderPage) => void, RegExp]>([
    [
      'more headers than asked for',
      (page) => page.block_metas.unshift(...page.block_metas.map(above)),
      /above 4, the highest/,
    ],
    ['a header twice', (page) => page.block_metas.push(...page.block_metas.slice(1)), /have holes or repeat/],
    [
      'fewer than its head allows',
      (page) => page.block_metas.shift(),
      /header 4 is missing, but its head is 4/,
    ],
  ])('is refused where it gives %s', async (_, change, words) => {
    node.override('blockchain', (_params, honest) => {
      const page = honest() as HeaderPage
      change(page)
      return page
    })
    await expect(source.range(at(1), at(4))).rejects.toThrow(words)
  })

  it('is refused where its block has another number of transactions than its header', async () => {
    node.override('block', (_, honest) => {
      const answer = honest() as { block: { data: { txs: string[] } } }
      answer.block.data.txs.pop()
      return answer
    })
    await expect(source.block(at(2))).rejects.toThrow(/has 2 transactions, but its header counts 3/)
  })

  it('is refused where the transaction that it finds is another', async () => {
    node.override('tx', () => ({ hash: chain.txHash(2, 0).slice(2), height: '2' }))
    await expect(source.blockOfTransaction(chain.txHash(3, 0))).rejects.toThrow(/is of 0x.*, not of 0x/)
  })

  it('is waited for where its head is known a moment before its header', async () => {
    node.refuseNext('blockchain', 2, "min height 4 can't be greater than max height 3")
    expect((await source.tip()).head).toEqual(chain.ref(4))
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
    const early = open({ rpc: endpointOptions([empty.url]) })
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
    await expect(open({ rpc: endpointOptions([liar.url]) }).header(at(2))).rejects.toThrow(WrongChainError)
    await liar.stop()
  })
})
