// Situations met in the field, each with its number: nodes that differ, first blocks, pruned nodes, late results. The
// simulated node over real HTTP; where a node is odd, its answer is replaced.
import { setTimeout as sleep } from 'node:timers/promises'
import type { CosmosChainOptions } from '@lockstep/config'
import { type ChainSource, type Height, TX_INDEX_END_BLOCK } from '@lockstep/domain'
import { silentLogger } from '@lockstep/telemetry'
import { afterEach, expect, it } from 'vitest'
import {
  type CometBlockScript,
  cosmosChainOptions,
  SimulatedCometChain,
  SimulatedCometNode,
} from '../../testkit/src/comet/index.js'
import { createCosmosSource } from './cosmos-source.js'

const at = (height: number) => height as Height
const nodes: SimulatedCometNode[] = []
const sources: ChainSource[] = []

async function serve(version: string, blocks: readonly CometBlockScript[]) {
  const chain = new SimulatedCometChain({ chainId: 'sim-1', version })
  chain.extend(blocks)
  return { chain, node: await nodeOf(chain) }
}

async function nodeOf(chain: SimulatedCometChain): Promise<SimulatedCometNode> {
  const node = await SimulatedCometNode.start(chain)
  nodes.push(node)
  return node
}

function open(rpc: readonly SimulatedCometNode[], changes: Partial<Omit<CosmosChainOptions, 'rpc'>> = {}) {
  const options = cosmosChainOptions({ ...changes, rpc: rpc.map(({ url }) => url) })
  const source = createCosmosSource(options, { logger: silentLogger() })
  sources.push(source)
  return source
}

afterEach(async () => {
  for (const source of sources.splice(0)) await source.close()
  for (const node of nodes.splice(0)) await node.stop()
})

/** One block a second, each with one transaction that emitted these. */
const blocksOf = (
  ...attributes: readonly (readonly (readonly [string, string | null])[])[]
): CometBlockScript[] =>
  attributes.map((pairs, index) => ({
    time: `2024-01-01T00:00:${String(index).padStart(2, '0')}Z`,
    txs: [
      {
        events: [
          { type: 'x', attributes: pairs },
          { type: 'bare', attributes: [] },
        ],
      },
    ],
  }))

const argsAt = async (source: ChainSource, height: number) =>
  (await source.block(at(height)))?.events.map(({ args }) => args)

it('S19: attributes read the same from old and new nodes, and through an address that mixes them', async () => {
  const blocks = blocksOf(
    [['amount', '5utok']],
    [['amount', '5utok']],
    [['memo', 'dGVzdA==']],
    [['fee', null]],
  )
  const [old, recent] = [await serve('0.34.24', blocks), await serve('0.38.17', blocks)]
  const expected = [{ amount: '5utok' }, { amount: '5utok' }, { memo: 'dGVzdA==' }, { fee: null }]
  for (const { node } of [old, recent]) {
    const source = open([node])
    for (const [index, args] of expected.entries())
      expect(await argsAt(source, index + 1)).toEqual([args, {}])
  }
  // What each says of itself is the other's word: status comes from one node, blocks from another.
  for (const [mixed, answering] of [
    [old, recent],
    [recent, old],
  ] as const) {
    for (const method of ['blockchain', 'block'])
      mixed.node.override(method, async (params) => await call(answering.node, method, params))
    mixed.node.override(
      'block_results',
      async (params) => await call(answering.node, 'block_results', params),
    )
    const source = open([mixed.node])
    for (const [index, args] of expected.entries())
      expect(await argsAt(source, index + 1)).toEqual([args, {}])
    for (const method of ['blockchain', 'block', 'block_results'])
      mixed.node.override(method, (_, honest) => honest())
  }
})

async function call(node: SimulatedCometNode, method: string, params: object): Promise<unknown> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  return ((await (await fetch(node.url, { method: 'POST', body })).json()) as { result: unknown }).result
}

it('S20: the first block is read in spite of empty parts; evidence and changed parameters do no harm', async () => {
  const { chain, node } = await serve('0.38.17', blocksOf([['a', '1']], [['a', '2']], [['a', '3']]))
  node.override('blockchain', (_, honest) => {
    const page = honest() as {
      block_metas: { header: { height: string; last_block_id: unknown }; num_txs: string }[]
    }
    for (const meta of page.block_metas) {
      if (meta.header.height !== '1') continue
      meta.header.last_block_id = null
      meta.num_txs = '0'
    }
    return page
  })
  node.override('block_results', (params, honest) => ({
    ...(honest() as object),
    consensus_param_updates: { block: { max_bytes: '1', max_gas: '-1' }, evidence: null },
    validator_updates: [{ pub_key: { type: 'bls', value: '' }, power: '0' }],
    ...(params.height === '1' && { txs_results: null, finalize_block_events: null }),
  }))
  node.override('block', (params, honest) => {
    const answer = honest() as { block: Record<string, unknown> }
    answer.block.evidence = {
      evidence: [{ type: 'tendermint/DuplicateVoteEvidence', value: { vote_a: null } }],
    }
    answer.block.last_commit = params.height === '1' ? { signatures: null } : null
    return answer
  })
  const source = open([node])
  expect(await source.block(at(1))).toEqual({
    ref: { ...chain.ref(1), parentHash: null },
    events: [],
    children: [],
    transactions: [],
  })
  expect((await source.block(at(2)))?.ref.parentHash).toBe(chain.ref(1).hash)
  const { blocks } = await source.range(at(1), at(3))
  expect(blocks.map(({ events }) => events.length)).toEqual([0, 2, 2])
})

it('S21: pruned heights come from a node that has them; alone, the gap is named to its end', async () => {
  const { chain, node: pruned } = await serve('0.38.17', [])
  chain.extendEmpty(60, 1_000_000n)
  const whole = await nodeOf(chain)
  pruned.pruneBelow(50)
  const both = open([pruned, whole])
  expect((await both.range(at(11), at(60))).blocks).toHaveLength(50)
  const alone = open([pruned])
  // The first page's refusal comes last: what is named is the whole gap all the same.
  pruned.override('blockchain', async (params, honest) => {
    if (params.minHeight === '11' && params.maxHeight === '30') await sleep(200)
    return honest()
  })
  for (const answer of [alone.range(at(11), at(60)), alone.block(at(11))])
    await expect(answer).rejects.toThrow(/no longer has blocks 11 to 49: its lowest is 50/)
})

it('S22: results that come after their block are waited for; where they do not come, nothing of it is given', async () => {
  const { node } = await serve('0.38.17', blocksOf([['a', '1']]))
  const source = open([node])
  node.lagResults(2)
  expect(await argsAt(source, 1)).toEqual([{ a: '1' }, {}])
  node.lagResults(Number.POSITIVE_INFINITY)
  await expect(source.block(at(1))).rejects.toMatchObject({
    code: 'rpc_unavailable',
    retryable: true,
    message: expect.stringMatching(/degraded: it has block 1, but not its results/),
  })
})

it('S23: hostile text is stored by the rule, and its raw form can be read', async () => {
  const { node } = await serve('0.34.24', [
    {
      time: '2024-01-01T00:00:00Z',
      txs: [
        {
          events: [
            {
              type: 'x',
              attributes: [
                ['zero', 'AB\u0000C'],
                ['bytes', Uint8Array.of(0xff, 0xfe)],
              ],
            },
            { type: 'x', attributes: [['plain', 'text']] },
          ],
        },
      ],
    },
  ])
  const first = await open([node]).block(at(1))
  expect(first?.events.map(({ args }) => args)).toEqual([
    { zero: 'AB\u{10F700}C', bytes: '\u{10F7FF}\u{10F7FE}' },
    { plain: 'text' },
  ])
  expect(await open([node]).block(at(1))).toEqual(first)
})

it('S27: a node of another network is refused, also where it turns into one', async () => {
  const { node } = await serve('0.38.17', blocksOf([['a', '1']]))
  const source = open([node])
  await source.tip()
  node.reportNetwork('other-1')
  await expect(source.tip()).rejects.toMatchObject({ code: 'wrong_chain', facts: { reported: 'other-1' } })
})

it('S34: a halted chain goes on by itself when it resumes', async () => {
  const { chain, node } = await serve('0.38.17', blocksOf([['a', '1']], [['a', '2']]))
  const source = open([node])
  for (let poll = 0; poll < 3; poll += 1) expect((await source.tip()).head).toEqual(chain.ref(2))
  expect(await source.block(at(3))).toBeNull()
  chain.extend([{ time: '2024-01-01T03:00:00Z', endEvents: [{ type: 'x', attributes: [] }] }])
  expect((await source.tip()).head).toEqual(chain.ref(3))
  expect((await source.block(at(3)))?.events.map(({ txIndex }) => txIndex)).toEqual([TX_INDEX_END_BLOCK])
})
